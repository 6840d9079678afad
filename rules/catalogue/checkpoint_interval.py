"""Checkpoints are saved far more often, or far less often, than pays off.

## What it checks
The median time between recorded checkpoints and the median duration of one, against the cheapest
interval: the square root of twice the duration of a checkpoint times the mean time between failures
(`mtbf_hours` over the number of nodes).

## Why it costs money
Saving too often stops the training; saving too rarely loses much work when a machine fails. Both
costs are small near the best interval and grow away from it.

## When it fires
When the interval is less than a third or more than three times (`factor`) the best one, and costs
at least `least_excess_pct` more time than the best interval would. It needs at least `fewest`
checkpoints.

## When it is wrong
Checkpoints have other purposes too: choosing the best model, evaluation, resuming by hand. A
checkpoint saved in the background costs less than its duration.

## How to fix it
Set the interval that the finding names, or make saving cheaper (`checkpoint_stalls`).

## Parameters
`factor`, `least_excess_pct`, `mtbf_hours` and `fewest`.

## Sources
Young (1974) and Daly (2006) for the best interval, sqrt(2 C M), and the cost of any other one, C/t
+ t/(2M). A third and three times are ours, and so is 1 %, below which the cost doesn't matter. One
failure per node in 30 days: ours; on spot instances, set it lower.
"""

from __future__ import annotations

import math

import numpy as np

from rules.category import TIME
from rules.checkpoints import checkpoint_spans
from rules.evidence import within
from rules.frame import RunFrame
from rules.rule import Numbers, Parameter, Rule, Values, Verdict
from rules.wording import counted, lasting

SHORTEST_SECONDS = 1e-3


def measure(frame: RunFrame, values: Values) -> Numbers:
    recorded = [checkpoint_spans(node, frame.duration_seconds) for node in frame.nodes.values()]
    spans = max(recorded, key=len, default=[])
    ends = [span.end_seconds for span in spans]
    lengths = [span.end_seconds - span.start_seconds for span in spans]
    numbers = {
        "run_seconds": frame.duration_seconds,
        "nodes_count": float(len(frame.nodes)),
        "checkpoints_count": float(len(spans)),
        "interval_seconds": float(np.median(np.diff(ends))) if len(ends) > 1 else None,
        "checkpoint_seconds": float(np.median(lengths)) if lengths else None,
    }
    return Numbers(numbers)


def judge(numbers: Numbers, values: Values) -> Verdict:
    interval, cost = numbers.known("interval_seconds"), numbers.known("checkpoint_seconds")
    count, run = numbers.known("checkpoints_count") or 0.0, numbers.known("run_seconds") or 0.0
    if interval is None or cost is None or count < values["fewest"]:
        recorded = f"{counted(count, 'checkpoint')} recorded, {values['fewest']:.0f} needed"
        return Verdict("insufficient_data", f"Not enough data: {recorded}.")
    if interval < SHORTEST_SECONDS or cost < SHORTEST_SECONDS:
        return Verdict("passed", "Saving takes no time.")
    nodes = min(max(numbers.known("nodes_count") or 1.0, 1.0), 1e6)
    between = values["mtbf_hours"] * 3600 / nodes
    best = math.sqrt(2 * cost * between)
    excess = _overhead(interval, cost, between) - _overhead(best, cost, between)
    summary = (
        f"A checkpoint of {cost:.3g} s every {lasting(interval)}; best: every {lasting(best)}."
    )
    often, rare = interval < best / values["factor"], interval > best * values["factor"]
    if not (often or rare) or 100 * excess < values["least_excess_pct"]:
        return Verdict("passed", summary)
    lost = within(excess * run, run)
    return Verdict(
        "fired",
        f"{summary} That costs {100 * excess:.1f} % more of the run's time.",
        advice=f"Save about every {lasting(best)}.",
        waste_seconds_low=0.5 * lost,
        waste_seconds_high=lost,
        severity="medium" if excess > 0.05 else "low",
        dedupe_key="checkpoint_interval:often" if often else "checkpoint_interval:rare",
    )


def _overhead(interval: float, cost: float, between_failures: float) -> float:
    """The share of time for saving and for repeating work after a failure, at most 1."""
    return min(cost / interval + interval / (2 * between_failures), 1.0)


RULE = Rule(
    id="checkpoint_interval",
    title="Checkpoint interval too short or too long",
    category=TIME,
    version=1,
    needs=(),
    parameters=(
        Parameter(
            "factor", "times", 3, 1, 1000, "Times shorter or longer than the best interval", "ours"
        ),
        Parameter(
            "least_excess_pct",
            "%",
            1,
            0,
            100,
            "And costs at least this much more time",
            "ours",
            save=0.5,
            safe=3,
        ),
        Parameter(
            "mtbf_hours", "h", 720, 1, 1e6, "Mean time between failures of a node", "30 days: ours"
        ),
        Parameter(
            "fewest", "checkpoints", 3, 2, 1e6, "Least checkpoints to judge", "ours", whole=True
        ),
    ),
    measure=measure,
    judge=judge,
    explained_by=("checkpoint_stalls", "lost_work"),
)
