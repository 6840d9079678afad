"""Evaluation takes a large share of the training loop.

## What it checks
The time in the phase `evaluate` (or, if none was recorded, in evaluation steps) as a share of the
loop: from the first training step to the end of the last step or evaluation.

## Why it costs money
The model learns nothing during evaluation, and on the training machine evaluation costs as much as
training.

## When it fires
From `share_pct` of the loop. Loops shorter than `minimum_seconds` are not judged.

## When it is wrong
In a short fine-tuning run, or a search that selects by evaluation, a large share may be intended.

## How to fix it
Evaluate less often, on part of the data, with larger batches and without gradients, or on a cheaper
machine from the checkpoints.

## Parameters
`share_pct`; `fair_share_pct` is the share that remains after the fix; `minimum_seconds`.

## Sources
Gao et al. (ICSE 2024) find evaluation among the causes of low utilisation; 20 % and 10 % are ours.
The waste is the time above the fair share, half of it at the lower end: our estimate. SageMaker
shows the share and has no such rule.
"""

from __future__ import annotations

from rules.category import TIME
from rules.evidence import within
from rules.frame import RunFrame
from rules.intervals import covered_seconds
from rules.rule import Numbers, Parameter, Rule, Values, Verdict, Window
from rules.training_loop import loop_span, phase_spans
from rules.wording import counted, lasting


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
    loop, spent = numbers.known("loop_seconds"), numbers.known("evaluation_seconds")
    if loop is None or spent is None:
        return Verdict("insufficient_data", "Missing: training steps.")
    count = numbers.known("evaluations_count") or 0.0
    if loop <= 0 or loop < values["minimum_seconds"]:
        return Verdict("insufficient_data", f"Not enough data: a loop of {lasting(loop)}.")
    share = round(100 * spent / loop, 6)
    summary = f"{counted(count, 'evaluation')} took {lasting(spent)}, {share:.1f} % of the loop."
    if share < values["share_pct"]:
        return Verdict("passed", summary)
    lost = (share - values["fair_share_pct"]) / 100 * loop
    lost = within(lost, min(loop, numbers.known("run_seconds") or 0.0))
    return Verdict(
        "fired",
        summary,
        advice="Evaluate less often, on part of the data, or elsewhere from the checkpoints.",
        waste_seconds_low=0.5 * lost,
        waste_seconds_high=lost,
        severity="high" if share >= 40 else "medium",
        dedupe_key="evaluation_share",
    )


RULE = Rule(
    id="evaluation_share",
    title="High share of evaluation",
    category=TIME,
    version=1,
    needs=("steps",),
    explains=("evaluation",),
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
        Parameter("minimum_seconds", "s", 300, 10, 86_400, "Shortest loop that is judged", "ours"),
    ),
    measure=measure,
    judge=judge,
)
