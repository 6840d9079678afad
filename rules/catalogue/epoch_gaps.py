"""Training pauses between epochs, and the GPUs are idle.

## What it checks
The gaps between the steps of each node's first rank that last at least `median_steps` median steps
and `gap_seconds`. Recorded evaluations and checkpoints don't count. If the GPU utilisation in a gap
is known, it must be below 10 %.

## Why it costs money
At the end of each epoch the data loader's workers stop and start again, the queue is empty, and the
GPUs wait for the first batch.

## When it fires
When there are at least `fewest` gaps, and together they take `share_pct` of the run or more. Runs
shorter than `minimum_seconds` are not judged.

## When it is wrong
Whatever isn't recorded as a phase is a gap: an evaluation on the CPU, a checkpoint, an upload of
logs. Record them, and they are judged as such. A gap in which
no sample lies is taken to be like most of the others; if there are no others, it doesn't count.

## How to fix it
Keep the workers (`persistent_workers=True`); use an infinite sampler instead of epochs; prefetch
more; do less between epochs.

## Parameters
`median_steps`, `gap_seconds`, `fewest`, `share_pct` and `minimum_seconds`.

## Sources
PyTorch's documentation: its loader restarts the workers in each epoch. Three median steps, one
second, three gaps and 2 %: ours. That 0.6 to 0.9 of the gaps can be given back is our estimate.
"""

from __future__ import annotations

from rules.category import TIME
from rules.evidence import within
from rules.frame import RunFrame
from rules.intervals import total_seconds
from rules.rule import Numbers, Parameter, Rule, Values, Verdict, Window
from rules.step_gaps import unexplained_gaps
from rules.wording import counted, lasting

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.6, 0.9
MOST_WINDOWS = 500


def measure(frame: RunFrame, values: Values) -> Numbers:
    limits = values["gap_seconds"], values["median_steps"]
    by_node = {n.key: unexplained_gaps(n, frame, *limits) for n in frame.nodes.values()}
    known = {key: gaps for key, gaps in by_node.items() if gaps is not None}
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
        return Verdict("insufficient_data", "Missing: at least three training steps.")
    if run < values["minimum_seconds"]:
        return Verdict("insufficient_data", f"Not enough data: a run of {lasting(run)}.")
    count, share = numbers.known("gaps_count") or 0.0, round(100 * lost / run, 6)
    summary = (
        f"{counted(count, 'gap')} between steps took {lasting(lost)}, {share:.1f} % of the run."
    )
    if count < values["fewest"] or share < values["share_pct"]:
        return Verdict("passed", summary)
    lost = within(lost, run)
    return Verdict(
        "fired",
        summary,
        advice="Keep the loader's workers (persistent_workers=True), prefetch more, and do less "
        "between epochs.",
        waste_seconds_low=RECOVERABLE_LOW * lost,
        waste_seconds_high=RECOVERABLE_HIGH * lost,
        severity="high" if share >= 15 else "medium",
        dedupe_key="epoch_gaps",
    )


RULE = Rule(
    id="epoch_gaps",
    title="Gaps between epochs",
    category=TIME,
    version=2,
    needs=("steps",),
    explains=("epoch_gap",),
    parameters=(
        Parameter(
            "median_steps",
            "steps",
            3,
            1,
            1000,
            "A gap lasts at least this many median steps",
            "ours",
            measured=True,
        ),
        Parameter(
            "gap_seconds", "s", 1, 0.01, 3600, "And at least this long", "ours", measured=True
        ),
        Parameter("fewest", "gaps", 3, 1, 1e6, "Fires from this many gaps", "ours", whole=True),
        Parameter(
            "share_pct", "%", 2, 0, 100, "And from this share of the run", "ours", save=1, safe=5
        ),
        Parameter("minimum_seconds", "s", 300, 10, 86_400, "Shortest run that is judged", "ours"),
    ),
    measure=measure,
    judge=judge,
)
