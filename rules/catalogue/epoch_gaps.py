"""Between epochs nothing is learned for a while.

## What it checks
The gaps between the steps of each node's first rank that are at least `median_steps` median steps
and `gap_seconds` long, without what was told as evaluation or checkpoint; where the GPUs' use is
known in a gap, it must be below 10 %.

## Why it costs money
At each epoch's end the loader's processes are ended and started anew, the queue is empty, and the
GPUs wait for the first batch.

## When it fires
When there are at least `fewest` gaps, and together they are `share_pct` of the run or more. Runs
shorter than `minimum_seconds` are not judged.

## When it is wrong
What nobody told as a phase is a gap: an evaluation on the cores, a checkpoint, an upload of logs.
Tell them, and they are judged as what they are. Gaps shorter than a sample are counted without a
look at the GPUs.

## How to fix it
`persistent_workers=True`; a sampler without end instead of epochs; more prefetching; less done
between epochs.

## Parameters
`median_steps`, `gap_seconds`, `fewest`, `share_pct` and `minimum_seconds`.

## Sources
How PyTorch's loader starts its workers anew in each epoch: its documentation. Three median steps, a
second, three gaps and 2 %: ours. That 0.6 to 0.9 of the gaps can be given back is our estimate.
"""

from __future__ import annotations

from rules.category import TIME
from rules.evidence import within
from rules.frame import RunFrame
from rules.intervals import total_seconds
from rules.rule import Numbers, Parameter, Rule, Values, Verdict, Window
from rules.step_gaps import unexplained_gaps

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.6, 0.9
MOST_WINDOWS = 500


def measure(frame: RunFrame, values: Values) -> Numbers:
    limits = values["gap_seconds"], values["median_steps"]
    found = {n.key: unexplained_gaps(n, frame, *limits) for n in frame.nodes.values()}
    known = {key: gaps for key, gaps in found.items() if gaps is not None}
    worst = max(known, key=lambda key: total_seconds(known[key]), default=None)
    gaps = known[worst] if worst is not None else []
    numbers = {
        "run_seconds": frame.duration_seconds,
        "gaps_count": float(len(gaps)),
        "gap_seconds": total_seconds(gaps) if worst is not None else None,
    }
    longest = sorted(gaps, key=lambda w: w.start_seconds - w.end_seconds)[:MOST_WINDOWS]
    windows = [Window(w.start_seconds, w.end_seconds, worst or "") for w in longest]
    return Numbers(numbers, tuple(sorted(windows, key=lambda w: w.start_seconds)))


def judge(numbers: Numbers, values: Values) -> Verdict:
    lost, run = numbers.known("gap_seconds"), numbers.known("run_seconds") or 0.0
    if lost is None:
        return Verdict("insufficient_data", "Missing: at least three steps of the training loop.")
    if run < values["minimum_seconds"]:
        return Verdict("insufficient_data", f"Too little to judge: {run:.0f} s.")
    count, share = numbers.known("gaps_count") or 0.0, round(100 * lost / run, 6)
    summary = f"{count:.0f} gaps between steps took {lost:.0f} s, {share:.1f} % of the run."
    if count < values["fewest"] or share < values["share_pct"]:
        return Verdict("passed", summary)
    lost = within(lost, run)
    return Verdict(
        "fired",
        summary,
        advice="Keep the loader's workers (persistent_workers=True), prefetch, do less between "
        "epochs.",
        waste_seconds_low=RECOVERABLE_LOW * lost,
        waste_seconds_high=RECOVERABLE_HIGH * lost,
        severity="high" if share >= 15 else "medium",
        dedupe_key="epoch_gaps",
    )


RULE = Rule(
    id="epoch_gaps",
    title="Pauses between epochs",
    category=TIME,
    version=1,
    needs=("steps",),
    parameters=(
        Parameter(
            "median_steps", "steps", 3, 1, 1000, "A gap is at least so long", "ours", measured=True
        ),
        Parameter("gap_seconds", "s", 1, 0.01, 3600, "And at least so long", "ours", measured=True),
        Parameter("fewest", "gaps", 3, 1, 1e6, "Fires from so many on", "ours", whole=True),
        Parameter(
            "share_pct", "%", 2, 0, 100, "And from this share of the run on", "ours", save=1, safe=5
        ),
        Parameter("minimum_seconds", "s", 300, 10, 86_400, "Shorter runs: not judged", "ours"),
    ),
    measure=measure,
    judge=judge,
)
