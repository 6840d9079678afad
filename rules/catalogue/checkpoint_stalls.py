"""Training stops while checkpoints are written.

## What it checks
The time that the worst node spends writing checkpoints, as recorded (the phase `checkpoint`, or the
seconds of its event), without those during which the GPUs kept working. If nothing was recorded:
bursts of writing (five times the median rate and 20 MB/s) while the GPUs are below 10 %, if they
work again after it.

## Why it costs money
The GPUs wait for a disk or an upload that could run in the background.

## When it fires
When checkpoints take `share_pct` of the run or more, and `least_seconds`; and they are at least
`fewest`, or take `alone_share_pct` of the run.

## When it is wrong
Without GPU utilisation, saving in the background inside a recorded phase looks like waiting.
Unpacking a dataset between epochs is a burst of writing as well.

## How to fix it
Save in the background: `torch.distributed.checkpoint.async_save` (PyTorch 2.3 and newer), or
Lightning's `AsyncCheckpointIO` (1.7 and newer). Hugging Face's Trainer has no such setting. Save in
shards, and to local NVMe first. Save less often: see `checkpoint_interval`.

## Parameters
`share_pct`, `fewest`, `alone_share_pct` and `least_seconds`.

## Sources
5 %: ours, after CheckFreq (FAST 2021), which keeps the overhead of saving below 3.5 %. That 0.7 to
0.95 of the time can be given back is our estimate. SageMaker has no such rule.
"""

from __future__ import annotations

from rules.category import TIME
from rules.checkpoints import checkpoint_stalls
from rules.evidence import clamp_seconds
from rules.frame import RunFrame
from rules.intervals import total_seconds
from rules.machine_time import seconds_of_run, time_of_all
from rules.rule import Claim, Directness, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.told_evidence import is_told_enough, told_evidence_parameters
from rules.wording import lasting, write_count

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.7, 0.95

LABELS = ("checkpoint",)


def measure(frame: RunFrame, values: Values) -> Numbers:
    by_node = {node.key: checkpoint_stalls(node, frame) for node in frame.nodes.values()}
    known = {key: stalled for key, stalled in by_node.items() if stalled is not None}
    lengths = {key: total_seconds(windows) for key, (windows, _) in known.items()}
    worst = known[max(lengths, key=lambda key: lengths[key])][0] if known else []
    numbers = {
        "run_seconds": frame.duration_seconds,
        "stall_seconds": total_seconds(worst) if known else None,
        "stall_run_seconds": seconds_of_run(frame, lengths) if known else None,
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
    stalled, run = numbers.get("stall_seconds"), numbers.get("run_seconds") or 0.0
    if stalled is None:
        return Verdict(
            "insufficient_data",
            'No checkpoint was recorded: call trimtab.phase("checkpoint"). Without it, the disk '
            "writes and the GPU utilisation must be known.",
        )
    count = numbers.get("stalls_count") or 0.0
    share = 100 * stalled / run if run > 0 else 0.0
    if not count:
        return Verdict("passed", "No checkpoint was seen to stop the training.")
    how = "recorded" if numbers.get("is_told") else "seen as bursts of writing"
    summary = (
        f"{write_count(count, 'checkpoint')} ({how}) stopped the training for {lasting(stalled)}, "
        f"{share:.1f} % of the run."
    )
    if share < values["share_pct"] or not is_told_enough(count, stalled, share, values):
        return Verdict("passed", summary)
    of_run = numbers.get("stall_run_seconds")
    if of_run is None:
        return Verdict("insufficient_data", "Missing: how long all nodes waited for checkpoints.")
    lost = clamp_seconds(of_run, stalled)
    return Verdict(
        "fired",
        summary + time_of_all(lost, stalled, run),
        advice="Save in the background, in shards, to local NVMe first; or save less often.",
        claims=(Claim(LABELS, lost, RECOVERABLE_LOW, RECOVERABLE_HIGH),),
        severity="high" if share >= 15 else "medium",
        dedupe_key="checkpoint_stalls",
    )


RULE = Rule(
    id="checkpoint_stalls",
    title="Training waits for checkpoints",
    category=TIME,
    version=4,
    needs=(),
    claims_on=LABELS,
    directness=Directness.TOLD_CAUSE,
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
        *told_evidence_parameters("checkpoints"),
    ),
    measure=measure,
    judge=judge,
)
