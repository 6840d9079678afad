"""Training stops while checkpoints are written.

## What it checks
The time that each node spends writing checkpoints, as recorded (the phase `checkpoint`, or the
seconds of its event), without those during which the GPUs kept working. If nothing was recorded:
bursts of writing (five times the median rate and 20 MB/s) while the GPUs are below 10 %.

## Why it costs money
The GPUs wait for a disk or an upload that could run in the background.

## When it fires
When at least `fewest` checkpoints take `share_pct` of the run or more. Runs shorter than
`minimum_seconds` are not judged.

## When it is wrong
Without GPU utilisation, saving in the background inside a recorded phase looks like waiting.
Unpacking a dataset between epochs is a burst of writing as well.

## How to fix it
Save in the background (`torch.distributed.checkpoint.async_save`), in shards, to local NVMe first.
Save less often: see `checkpoint_interval`.

## Parameters
`share_pct`, `fewest` and `minimum_seconds`.

## Sources
5 %: ours, after CheckFreq (FAST 2021), which keeps the overhead of saving below 3.5 %. That 0.7 to
0.95 of the time can be given back is our estimate. SageMaker has no such rule.
"""

from __future__ import annotations

from rules.category import TIME
from rules.checkpoints import checkpoint_stalls
from rules.evidence import within
from rules.frame import RunFrame
from rules.intervals import total_seconds
from rules.rule import Numbers, Parameter, Rule, Values, Verdict, Window
from rules.wording import counted, lasting

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.7, 0.95


def measure(frame: RunFrame, values: Values) -> Numbers:
    by_node = {node.key: checkpoint_stalls(node, frame) for node in frame.nodes.values()}
    known = {key: stalled for key, stalled in by_node.items() if stalled is not None}
    worst = max((windows for windows, _ in known.values()), key=total_seconds, default=[])
    numbers = {
        "run_seconds": frame.duration_seconds,
        "stall_seconds": total_seconds(worst) if known else None,
        "stalls_count": float(len(worst)),
        "is_told": float(any(told for _, told in known.values())),
    }
    windows = [
        Window(w.start_seconds, w.end_seconds, key)
        for key, (each, _) in known.items()
        for w in each
    ]
    return Numbers(numbers, tuple(windows))


def judge(numbers: Numbers, values: Values) -> Verdict:
    stalled, run = numbers.known("stall_seconds"), numbers.known("run_seconds") or 0.0
    if stalled is None:
        return Verdict(
            "insufficient_data",
            'No checkpoint was recorded: call trimtab.phase("checkpoint"). Without it, the disk '
            "writes and the GPU utilisation are needed.",
        )
    if run < values["minimum_seconds"]:
        return Verdict("insufficient_data", f"Not enough data: a run of {lasting(run)}.")
    count, share = numbers.known("stalls_count") or 0.0, 100 * stalled / run
    how = "recorded" if numbers.known("is_told") else "seen as bursts of writing"
    summary = (
        f"{counted(count, 'checkpoint')} ({how}) stopped the training for {lasting(stalled)}, "
        f"{share:.1f} % of the run."
    )
    if count < values["fewest"] or share < values["share_pct"]:
        return Verdict("passed", summary)
    lost = within(stalled, run)
    return Verdict(
        "fired",
        summary,
        advice="Save in the background, in shards, to local NVMe first; or save less often.",
        waste_seconds_low=RECOVERABLE_LOW * lost,
        waste_seconds_high=RECOVERABLE_HIGH * lost,
        severity="high" if share >= 15 else "medium",
        dedupe_key="checkpoint_stalls",
    )


RULE = Rule(
    id="checkpoint_stalls",
    title="Training waits for checkpoints",
    category=TIME,
    version=2,
    needs=(),
    explains=("checkpoint", "idle_tail"),
    parameters=(
        Parameter(
            "share_pct",
            "%",
            5,
            0,
            100,
            "Fires from this share of the run",
            "ours",
            save=2,
            safe=10,
        ),
        Parameter(
            "fewest", "checkpoints", 3, 1, 1e6, "Least number of checkpoints", "ours", whole=True
        ),
        Parameter("minimum_seconds", "s", 300, 10, 86_400, "Shortest run that is judged", "ours"),
    ),
    measure=measure,
    judge=judge,
)
