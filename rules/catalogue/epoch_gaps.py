"""Training pauses between epochs, and the GPUs are idle.

## What it checks
The gaps between the steps of each node's first rank that last at least `median_steps` median steps
and `gap_seconds`. Recorded evaluations and checkpoints don't count, nor do restarts and hangs. If
the GPU utilisation in a gap is known, it must be below 10 %.

## Why it costs money
At the end of each epoch the data loader's workers stop and start again, the queue is empty, and the
GPUs wait for the first batch.

## When it fires
When gaps take `share_pct` of the run or more, and `least_seconds`; and they are at least `fewest`,
or take `alone_share_pct` of the run.

## When it is wrong
Whatever isn't recorded as a phase is a gap: an evaluation on the CPU, a checkpoint, an upload of
logs. Record them, and they are judged as such. A gap in which
no sample lies is taken to be like most of the others; if there are no others, it doesn't count.

## How to fix it
Keep the workers (`persistent_workers=True`); use an infinite sampler instead of epochs; prefetch
more; do less between epochs.

## Parameters
`median_steps`, `gap_seconds`, `share_pct`, `fewest`, `alone_share_pct` and `least_seconds`.

## Sources
PyTorch's documentation: its loader restarts the workers in each epoch. Three median steps, one
second, three gaps and 2 %: ours. That 0.6 to 0.9 of the gaps can be given back is our estimate.
"""

from __future__ import annotations

from rules.catalogue import hung
from rules.category import TIME
from rules.evidence import clamp_seconds
from rules.frame import RunFrame
from rules.hangs import hangs
from rules.intervals import subtract_windows, total_seconds
from rules.machine_time import seconds_of_run, time_of_all
from rules.rule import Claim, Directness, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.step_gaps import unexplained_gaps
from rules.told_evidence import is_told_enough, told_evidence_parameters
from rules.wording import lasting, write_count

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.6, 0.9
MOST_WINDOWS = 500

LABELS = ("epoch_gap",)


def measure(frame: RunFrame, values: Values) -> Numbers:
    limits = values["gap_seconds"], values["median_steps"]
    by_node = {n.key: unexplained_gaps(n, frame, *limits) for n in frame.nodes.values()}
    hung = _hangs(frame) if any(by_node.values()) else []
    known = {
        key: [
            w for w in subtract_windows(gaps, hung) if total_seconds([w]) >= values["gap_seconds"]
        ]
        for key, gaps in by_node.items()
        if gaps is not None
    }
    lengths = {key: total_seconds(gaps) for key, gaps in known.items()}
    worst = max(known, key=lambda key: lengths[key], default=None)
    gaps = known[worst] if worst is not None else []
    numbers = {
        "run_seconds": frame.duration_seconds,
        "gaps_count": float(len(gaps)),
        "gap_seconds": lengths[worst] if worst is not None else None,
        "gap_run_seconds": seconds_of_run(frame, lengths) if worst is not None else None,
    }
    longest = sorted(gaps, key=lambda w: w.start_seconds - w.end_seconds)[:MOST_WINDOWS]
    windows = [Window(w.start_seconds, w.end_seconds, worst or "") for w in longest]
    return Numbers(numbers, tuple(sorted(windows, key=lambda w: w.start_seconds)))


def _hangs(frame: RunFrame) -> list[Window]:
    """Return the hangs by their default parameters: a rule doesn't know another one's."""
    values = hung.RULE.values()
    return hangs(frame, values["idle_seconds"], values["spin_seconds"]) or []


def judge(numbers: Numbers, values: Values) -> Verdict:
    lost, run = numbers.get("gap_seconds"), numbers.get("run_seconds") or 0.0
    if lost is None:
        return Verdict("insufficient_data", "Missing: at least three training steps.")
    count = numbers.get("gaps_count") or 0.0
    share = round(100 * lost / run, 6) if run > 0 else 0.0
    if not count:
        return Verdict("passed", "No unexplained gap between steps was seen.")
    summary = (
        f"{write_count(count, 'gap')} between steps took {lasting(lost)}, {share:.1f} % of the run."
    )
    if share < values["share_pct"] or not is_told_enough(count, lost, share, values):
        return Verdict("passed", summary)
    of_run = numbers.get("gap_run_seconds")
    if of_run is None:
        return Verdict("insufficient_data", "Missing: how long the gaps took over all nodes.")
    worst, lost = lost, clamp_seconds(of_run, lost)
    return Verdict(
        "fired",
        summary + time_of_all(lost, worst, run),
        advice="Keep the loader's workers (persistent_workers=True), prefetch more, and do less "
        "between epochs.",
        claims=(Claim(LABELS, lost, RECOVERABLE_LOW, RECOVERABLE_HIGH),),
        severity="high" if share >= 15 else "medium",
        dedupe_key="epoch_gaps",
    )


RULE = Rule(
    id="epoch_gaps",
    title="Gaps between epochs",
    category=TIME,
    version=4,
    needs=("steps",),
    claims_on=LABELS,
    directness=Directness.TOLD_CAUSE,
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
        Parameter(
            "share_pct", "%", 2, 0, 100, "And from this share of the run", "ours", save=1, safe=5
        ),
        *told_evidence_parameters("gaps"),
    ),
    measure=measure,
    judge=judge,
)
