"""Checkpoints are saved far more often, or far less often, than pays off.

## What it checks
The median work between recorded checkpoints, the time for which one stops the loop on average and
the time that all of them took, against the cheapest interval at a mean time between failures
(`mtbf_hours` over the number of nodes). What another interval costs counts over the training loop,
from the first step (or use of a GPU) to the end of the last step or checkpoint: nothing is saved
before and after it. A checkpoint during which the GPUs kept working was saved in the background and
took no time.

## Why it costs money
Saving too often stops the training; saving too rarely loses much work when a machine fails. Both
costs are small near the best interval and grow away from it.

## When it fires
When the interval is less than a third or more than three times (`factor`) the best one, and costs
at least `least_excess_pct` of the run's time more than the best interval would. It needs at least
`fewest` checkpoints. A run that has ended can't have a better interval than its whole work: then
one checkpoint, at the end, is best.

## When it is wrong
Checkpoints have other purposes too: choosing the best model, evaluation, resuming by hand. Without
GPU utilisation, saving in the background looks like waiting.

## How to fix it
Set the interval that the finding names, or make saving cheaper (`checkpoint_stalls`).

## Parameters
`factor`, `least_excess_pct`, `mtbf_hours` and `fewest`.

## Sources
Daly (2006, higher order) for the best interval, about sqrt(2 C M), and Young (1974) for the cost of
any other one: all its checkpoints, and half an interval for each failure. A third and three times
are ours, and so is 1 %, below which the cost doesn't matter. One failure per node in 30 days: ours;
on spot instances, set it lower.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rules.category import TIME
from rules.checkpoints import best_interval_seconds, checkpoint_spans, checkpoint_stalls
from rules.evidence import clamp_seconds
from rules.frame import NodeFrame, RunFrame
from rules.intervals import total_seconds
from rules.machine_time import seconds_of_run, time_of_all
from rules.rule import Claim, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.training_loop import loop_span
from rules.wording import lasting, write_count

SHORTEST_SECONDS = 1e-3

LABELS = ("checkpoint",)


def measure(frame: RunFrame, values: Values) -> Numbers:
    end = frame.duration_seconds
    recorded = {key: checkpoint_spans(node, end) for key, node in frame.nodes.items()}
    worst = max(recorded, key=lambda key: len(recorded[key]), default="")
    spans = recorded.get(worst, [])
    starts, ends = ([getattr(w, name) for w in spans] for name in ("start_seconds", "end_seconds"))
    stops = {key: _stops(node, frame) for key, node in frame.nodes.items()}
    lengths = [total_seconds([w]) if w in stops[worst] else 0.0 for w in spans]
    by_node = {key: total_seconds(windows) for key, windows in stops.items()}
    between = [start - end for start, end in zip(starts[1:], ends, strict=False)]
    began = min((n.warm_up_end_seconds() for n in frame.nodes.values()), default=0.0)
    loop = loop_span(frame)
    ended = max([*ends, *([loop.end_seconds] if loop else [])], default=began)
    numbers = {
        "run_seconds": frame.duration_seconds,
        "is_final": float(frame.final),
        "nodes_count": float(len(frame.nodes)),
        "checkpoints_count": float(len(spans)),
        "loop_seconds": max(ended - began, 0.0) if spans else None,
        "interval_seconds": float(np.median(between)) if between else None,
        "checkpoint_seconds": sum(lengths) / len(lengths) if lengths else None,
        "saving_seconds": sum(lengths) if lengths else None,
        "saving_run_seconds": seconds_of_run(frame, by_node) if lengths else None,
    }
    return Numbers(numbers)


def _stops(node: NodeFrame, frame: RunFrame) -> list[Window]:
    """Return the recorded checkpoints that stopped the node."""
    stalls, is_told = checkpoint_stalls(node, frame) or ([], False)
    return stalls if is_told else []


def judge(numbers: Numbers, values: Values) -> Verdict:
    count = numbers.get("checkpoints_count") or 0.0
    if count < values["fewest"]:
        short = f"{write_count(count, 'checkpoint')} recorded, {values['fewest']:.0f} needed"
        return Verdict("insufficient_data", f"Not enough data: {short}.")
    saving = _saving(numbers, values)
    if saving is None:
        return Verdict("insufficient_data", "Missing: how often checkpoints were saved.")
    if saving.cost < SHORTEST_SECONDS:
        return Verdict("passed", f"The {write_count(count, 'checkpoint')} stopped nothing.")
    run = numbers.get("run_seconds") or 0.0
    share = 100 * saving.seconds / run if run else 0.0
    summary = (
        f"{write_count(count, 'checkpoint')} of {_short(saving.cost)}, every "
        f"{lasting(saving.interval)}, took {lasting(saving.seconds)}, {share:.1f} % of the run."
    )
    often = saving.interval < saving.best / values["factor"]
    rare = saving.interval > saving.best * values["factor"]
    excess = clamp_seconds(saving.excess, run)
    if not (often or rare) or not excess or 100 * excess < values["least_excess_pct"] * run:
        return Verdict("passed", summary)
    claimed = excess * _share_of_all(numbers, saving)
    return Verdict(
        "fired",
        f"{summary} {_best(saving, values)}: that takes {lasting(excess)} less, with the work that "
        f"is lost in a failure.{time_of_all(claimed, excess, run)}",
        advice=_advice(saving),
        claims=(Claim(LABELS, claimed, 0.5, 1.0),) if often else (),
        severity="medium" if excess > 0.05 * run else "low",
        dedupe_key="checkpoint_interval:often" if often else "checkpoint_interval:rare",
    )


@dataclass(frozen=True)
class _Saving:
    """The way in which the run saved. Seconds everywhere; `interval` is the work between two
    checkpoints.
    """

    interval: float
    cost: float
    """The time of one checkpoint."""
    seconds: float
    """The time of all checkpoints."""
    work: float
    """The work of the loop without checkpoints."""
    best: float
    is_once: bool
    """One checkpoint for all of the work is best."""
    between_failures: float

    @property
    def excess(self) -> float:
        """Return what the run's interval takes more than the best one, with the expected lost
        work.
        """
        then = self.cost * max(self.work / self.best, 1.0) + self._lost(self.best)
        return self.seconds + self._lost(self.interval) - then

    def _lost(self, interval: float) -> float:
        return min(self.work / self.between_failures, 1.0) * min(interval, self.work) / 2


def _saving(numbers: Numbers, values: Values) -> _Saving | None:
    """Return how the run saved, or None if something is unknown."""
    names = ("interval_seconds", "checkpoint_seconds", "saving_seconds", "loop_seconds")
    interval, cost, seconds, loop = (numbers.get(name) for name in names)
    if interval is None or cost is None or seconds is None or loop is None:
        return None
    nodes = min(max(numbers.get("nodes_count") or 1.0, 1.0), 1e6)
    between = values["mtbf_hours"] * 3600 / nodes
    work = max(loop - seconds, SHORTEST_SECONDS)
    best = best_interval_seconds(max(cost, SHORTEST_SECONDS), between)
    # More work is to come of a run that hasn't ended.
    is_once = bool(numbers.get("is_final")) and best >= work
    return _Saving(interval, cost, seconds, work, work if is_once else best, is_once, between)


def _share_of_all(numbers: Numbers, saving: _Saving) -> float:
    """Return what the checkpoints took of all nodes and GPUs, divided by what they took of one
    node.
    """
    of_all = numbers.get("saving_run_seconds")
    return 1.0 if of_all is None else min(of_all / saving.seconds, 1.0)


def _short(seconds: float) -> str:
    return f"{seconds:.3g} s" if seconds < 60 else lasting(seconds)


def _best(saving: _Saving, values: Values) -> str:
    often = "one at the end" if saving.is_once else f"every {lasting(saving.best)}"
    return f"At one failure of a node in {values['mtbf_hours']:g} h, {often} is best"


def _advice(saving: _Saving) -> str:
    if saving.is_once:
        return "Save once, at the end: saving more often costs more than it is likely to save."
    return f"Save about every {lasting(saving.best)}."


RULE = Rule(
    id="checkpoint_interval",
    title="Checkpoint interval too short or too long",
    category=TIME,
    version=3,
    needs=(),
    claims_on=LABELS,
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
            "And costs at least this share of the run more",
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
)
