"""A long training run saves no checkpoints.

## What it checks
Whether a run with training steps recorded a checkpoint or wrote in bursts (five times the median
rate and 20 MB/s), as saving does, and how long it has been training.

## Why it costs money
If the machine fails or the spot instance is reclaimed, all work has to be repeated.

## When it fires
After `without_seconds` of work without a recorded checkpoint and without bursts of writing. It
fires as soon as that is true, also during the run.

## When it is wrong
A small model may be saved too fast to be seen, or to a place that isn't monitored. Record the
checkpoint: `with trimtab.phase("checkpoint"):`.

## How to fix it
Save about every half hour; `checkpoint_interval` says what pays off.

## Parameters
`without_seconds`, and `mtbf_hours` and `spot_mtbf_hours`: the mean time between failures of a node.

## Sources
Two hours: ours. At risk is the probability of a failure times half of the work. The lower end
assumes one failure per node in 30 days (ours; Meta's Llama 3 report counts one in about nine months
for eight GPUs, and smaller sites more), the upper end one a day, as on spot instances.
"""

from __future__ import annotations

from rules.activity import work_began
from rules.category import TIME
from rules.checkpoints import checkpoint_spans, write_bursts
from rules.evidence import clamp_seconds
from rules.frame import RunFrame
from rules.rule import Numbers, Parameter, Rule, Values, Verdict
from rules.wording import lasting, was_or_were, write_count


def measure(frame: RunFrame, values: Values) -> Numbers:
    nodes = list(frame.nodes.values())
    began = [node.warm_up_end_seconds() for node in nodes if work_began(node)]
    written = [write_bursts(node, frame.resolution_seconds) for node in nodes]
    numbers = {
        "run_seconds": frame.duration_seconds,
        "steps_count": float(len(frame.steps)),
        "work_seconds": frame.duration_seconds - min(began) if began else 0.0,
        "nodes_count": float(len(nodes)),
        "told_count": float(sum(len(checkpoint_spans(n, frame.duration_seconds)) for n in nodes)),
        "bursts_count": float(sum(len(bursts) for bursts in written if bursts is not None)),
    }
    return Numbers(numbers)


def judge(numbers: Numbers, values: Values) -> Verdict:
    work, run = numbers.get("work_seconds"), numbers.get("run_seconds") or 0.0
    recorded = numbers.get("told_count") or 0.0
    if recorded:
        return Verdict(
            "passed", f"{write_count(recorded, 'checkpoint')} {was_or_were(recorded)} recorded."
        )
    if not numbers.get("steps_count"):
        return Verdict("insufficient_data", "No training steps were recorded: call trimtab.step().")
    if work is None:
        return Verdict("insufficient_data", "Missing: when the work began.")
    if work < values["without_seconds"]:
        return Verdict(
            "passed",
            f"Only {lasting(work)} of work without a checkpoint: a failure would lose little.",
        )
    if seen := numbers.get("bursts_count"):
        ask = 'If they are checkpoints, record them: trimtab.phase("checkpoint").'
        return Verdict(
            "insufficient_data",
            f"No checkpoint was recorded, but {write_count(seen, 'burst')} of writing. {ask}",
        )
    nodes = max(numbers.get("nodes_count") or 1.0, 1.0)
    low, high = (
        clamp_seconds(work * min(nodes * work / (2 * 3600 * values[name]), 1.0), run)
        for name in ("mtbf_hours", "spot_mtbf_hours")
    )
    return Verdict(
        "fired",
        f"No checkpoint in {lasting(work)} of work; a failure would lose all of it: "
        f"{lasting(min(low, high))} to {lasting(max(low, high))} of a run like this one, by how "
        "often machines fail.",
        advice="Save about every half hour, to storage that outlives the machine.",
        severity="high" if work > 4 * values["without_seconds"] else "medium",
        dedupe_key="checkpoint_missing",
    )


RULE = Rule(
    id="checkpoint_missing",
    title="No checkpoints",
    category=TIME,
    version=2,
    needs=(),
    parameters=(
        Parameter(
            "without_seconds",
            "s",
            7200,
            60,
            864_000,
            "Work without a checkpoint",
            "ours",
            save=3600,
            safe=14_400,
        ),
        Parameter(
            "mtbf_hours", "h", 720, 1, 1e6, "Mean time between failures of a node", "30 days: ours"
        ),
        Parameter("spot_mtbf_hours", "h", 24, 0.1, 1e6, "The same on spot", "ours"),
    ),
    measure=measure,
    judge=judge,
    reports_risk=True,
)
