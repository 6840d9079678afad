"""Evaluation takes a large share of the training loop.

## What it checks
The time in the phase `evaluate` (or, if none was recorded, in evaluation steps) as a share of the
loop: from the first training step to the end of the last step or evaluation.

## Why it costs money
The model learns nothing during evaluation, and on the training machine evaluation costs as much as
training.

## When it fires
From `share_pct` of the loop and `least_seconds`; of fewer than `fewest` evaluations from
`alone_share_pct`.

## When it is wrong
In a short fine-tuning run, or a search that selects by evaluation, a large share may be intended.

## How to fix it
Evaluate less often, on part of the data, with larger batches and without gradients, or on a cheaper
machine from the checkpoints.

## Parameters
`share_pct`; `fair_share_pct` is the share that remains after the fix; `fewest`,
`alone_share_pct` and `least_seconds`.

## Sources
Gao et al. (ICSE 2024) find evaluation among the causes of low utilisation; 20 % and 10 % are ours.
The waste is the time above the fair share, half of it at the lower end: our estimate. SageMaker
shows the share and has no such rule.
"""

from __future__ import annotations

from rules.category import TIME
from rules.evidence import clamp_seconds
from rules.frame import RunFrame
from rules.intervals import covered_seconds
from rules.rule import Claim, Directness, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.told_evidence import is_told_enough, told_evidence_parameters
from rules.training_loop import loop_span, phase_spans
from rules.wording import lasting, write_count

LABELS = ("evaluation",)


def measure(frame: RunFrame, values: Values) -> Numbers:
    numbers: dict[str, float | None] = {"run_seconds": frame.duration_seconds}
    span = loop_span(frame)
    if span is None:
        return Numbers(numbers)
    end = frame.duration_seconds
    spans_by_node = {n.key: phase_spans(n, "evaluate", end) for n in frame.nodes.values()}
    ends = [w.end_seconds for spans in spans_by_node.values() for w in spans]
    loop = Window(span.start_seconds, max([span.end_seconds, *ends]))
    evaluated = {key: covered_seconds(spans, loop) for key, spans in spans_by_node.items()}
    worst = max(evaluated, key=lambda key: evaluated[key])
    numbers |= {
        "loop_seconds": loop.end_seconds - loop.start_seconds,
        "evaluation_seconds": evaluated[worst],
        "evaluations_count": float(len(spans_by_node[worst])),
    }
    windows = [Window(w.start_seconds, w.end_seconds, worst) for w in spans_by_node[worst]]
    return Numbers(numbers, tuple(windows))


def judge(numbers: Numbers, values: Values) -> Verdict:
    loop, spent = numbers.get("loop_seconds"), numbers.get("evaluation_seconds")
    if loop is None or spent is None:
        return Verdict("insufficient_data", "Missing: training steps.")
    count = numbers.get("evaluations_count") or 0.0
    share = round(100 * spent / loop, 6) if loop > 0 else 0.0
    if not count:
        return Verdict("passed", "No evaluation was seen.")
    summary = (
        f"{write_count(count, 'evaluation')} took {lasting(spent)}, {share:.1f} % of the loop."
    )
    if share < values["share_pct"] or not is_told_enough(count, spent, share, values):
        return Verdict("passed", summary)
    spent = clamp_seconds(spent, min(loop, numbers.get("run_seconds") or 0.0))
    beyond = max(1 - values["fair_share_pct"] / share, 0.0) if share > 0 else 0.0
    return Verdict(
        "fired",
        summary,
        advice="Evaluate less often, on part of the data, or elsewhere from the checkpoints.",
        claims=(Claim(LABELS, spent, 0.5 * beyond, beyond),),
        severity="high" if share >= 40 else "medium",
        dedupe_key="evaluation_share",
    )


RULE = Rule(
    id="evaluation_share",
    title="High share of evaluation",
    category=TIME,
    version=2,
    needs=("steps",),
    claims_on=LABELS,
    directness=Directness.TOLD_CAUSE,
    parameters=(
        Parameter(
            "share_pct",
            "%",
            20,
            0,
            100,
            "Fires from this share of the loop",
            "ours",
            save=15,
            safe=30,
        ),
        Parameter("fair_share_pct", "%", 10, 0, 100, "Share that remains after the fix", "ours"),
        *told_evidence_parameters("evaluations"),
    ),
    measure=measure,
    judge=judge,
)
