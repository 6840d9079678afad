"""The model stopped improving long before the end of the run.

## What it checks
The logged metric that best measures the model's quality: validation metrics before training
metrics, then metrics whose lower values are better (loss, error, perplexity) before those whose
higher values are better (accuracy, score, reward). Its noise is taken into account: single values
far from their neighbours are moved to them, and what repeats in each recorded epoch is subtracted.
Then curves of many shapes are fitted, some of which improve to the end while others stop. The time
since the best value is the longest for which every curve that stops later fits much worse. Of a
curve's improvement after the first tenth of its time, `least_improvement_pct` counts as none.

## Why it costs money
Training beyond the best model costs as much as training up to it.

## When it fires
When the time since the best value is at least `share_pct` of the run, with at least `fewest` values
since; with fewer values it can't tell. Runs shorter than `minimum_seconds` are not judged. A metric
that still improves slowly, and one whose noise hides whether it does, doesn't fire.

## When it is wrong
Some models improve again after a long plateau (a change of the learning rate, "grokking"). Metrics
without a known better direction are ignored.

## How to fix it
Use early stopping, and keep the best checkpoint.

## Parameters
`share_pct`, `fewest`, `least_improvement_pct` and `minimum_seconds`.

## Sources
Early stopping as in Keras and Lightning (patience in evaluations), which compare raw values: noise
then sets the best one by chance. Shapes of learning curves: power laws and exponential approaches
(Viering and Loog, "The Shape of Learning Curves", TPAMI 2023). Outliers: Hampel's filter. "Much
worse" is a likelihood ratio beyond 99 %, with fewer independent values if neighbours err alike. 20
%, five values and 1 % are ours, and so is the estimate that half to 0.9 of the time since the best
value can be given back. SageMaker's LossNotDecreasing needs the tensors.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from rules.category import TIME
from rules.evidence import clamp_seconds
from rules.frame import RunFrame
from rules.ledger_labels import WORK
from rules.metric_direction import is_validation, less_is_better
from rules.plateau import flat_share
from rules.rule import Claim, Numbers, Parameter, Rule, Values, Verdict, Window
from rules.training_loop import events_of
from rules.wording import lasting, write_count, write_shortage

RECOVERABLE_LOW, RECOVERABLE_HIGH = 0.5, 0.9
Points = list[tuple[float, float]]
"""Seconds and value, in order."""
FEWEST_EPOCHS, PARTS_OF_EPOCH = 4, 8


def measure(frame: RunFrame, values: Values) -> Numbers:
    numbers: dict[str, float | None] = {"run_seconds": frame.duration_seconds}
    logged = _logged(frame)
    name = chosen_metric(logged)
    if name is None:
        return Numbers(numbers)
    points = logged[name]
    ends = _epoch_ends(frame)
    is_less = bool(less_is_better(name))
    best_at = _best_at(points, is_less, values["least_improvement_pct"] / 100, ends)
    since = [value for at, value in points if at > best_at]
    numbers |= {
        "values_count": float(len(points)),
        f"values_since_best_count@{name}": float(len(since)),
        "best_at_seconds": best_at,
        f"since_best_seconds@{name}": clamp_seconds(
            frame.duration_seconds - best_at, frame.duration_seconds
        ),
    }
    window = (Window(best_at, frame.duration_seconds),) if since else ()
    return Numbers(numbers, window)


def judge(numbers: Numbers, values: Values) -> Verdict:
    measured, run = numbers.by_entity("since_best_seconds"), numbers.get("run_seconds") or 0.0
    if not measured:
        return Verdict(
            "insufficient_data",
            "No metric such as a loss or accuracy was logged: call trimtab.log().",
        )
    if run <= 0 or run < values["minimum_seconds"]:
        short = write_shortage(run, values["minimum_seconds"])
        return Verdict("insufficient_data", f"Not enough data: a run of {short}.")
    [(name, since)] = list(measured.items())[:1]
    count = numbers.by_entity("values_since_best_count").get(name, 0.0)
    share = round(100 * since / run, 6)
    better = "decreased" if less_is_better(name) else "increased"
    summary = (
        f"{name} has not {better} for the last {lasting(since)}, {share:.0f} % of the run, in "
        f"{write_count(count, 'value')}."
    )
    if share < values["share_pct"]:
        still = f"{name} improved until {lasting(since)} before the end, as far as its noise tells."
        return Verdict("passed", still)
    if count < values["fewest"]:
        since_then = (
            f"{write_count(count, 'value')} of {name} since its best, {values['fewest']:g} needed"
        )
        return Verdict("insufficient_data", f"Not enough data: {since_then}.")
    lost = clamp_seconds(since, run)
    return Verdict(
        "fired",
        summary,
        advice=f"Use early stopping on {name}: end the training when it has stopped improving.",
        claims=(Claim(WORK, lost, RECOVERABLE_LOW, RECOVERABLE_HIGH),),
        severity="medium" if share >= 40 else "low",
        dedupe_key="no_progress",
    )


def _logged(frame: RunFrame) -> dict[str, Points]:
    """Return the finite values of each metric of the first rank that logs it."""
    by_rank: dict[str, dict[object, Points]] = {}
    for node in frame.nodes.values():
        for at, data in events_of(node, "metric"):
            name, value = data.get("name"), data.get("value")
            if isinstance(name, str) and isinstance(value, int | float) and math.isfinite(value):
                ranks = by_rank.setdefault(name, {})
                ranks.setdefault(data.get("rank"), []).append((at, float(value)))
    return {name: sorted(next(iter(ranks.values()))) for name, ranks in by_rank.items()}


def chosen_metric(names: Iterable[str]) -> str | None:
    """Return the best metric: validation before training, then losses before the others, then by
    name.
    """
    known = [name for name in names if less_is_better(name) is not None]
    ranked = sorted(
        known, key=lambda name: (not is_validation(name), not less_is_better(name), name)
    )
    return ranked[0] if ranked else None


def _best_at(
    points: Points, less_is_better: bool, least_share: float, epoch_ends: NDArray[np.float64]
) -> float:
    """Return since when it certainly hasn't improved; at the latest its last value."""
    at, values = (np.array(column, dtype=np.float64) for column in zip(*points, strict=True))
    first, last = float(at[0]), float(at[-1])
    if last <= first:
        return last
    steady = _without_season(-values if less_is_better else values, at, epoch_ends)
    flat = flat_share(steady, (at - first) / (last - first), least_share)
    return last - flat * (last - first)


def _epoch_ends(frame: RunFrame) -> NDArray[np.float64]:
    """Return the ends of epochs as the first node recorded them."""
    by_node = ([at for at, _ in events_of(node, "epoch")] for node in frame.nodes.values())
    return np.unique(np.array(next((ends for ends in by_node if ends), []), dtype=np.float64))


def _without_season(
    values: NDArray[np.float64], at: NDArray[np.float64], epoch_ends: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the values without what repeats in every epoch: the median difference of each part of
    the epochs from the line through the epochs' medians.
    """
    epochs = np.searchsorted(epoch_ends, at, side="left")
    is_whole = (epochs > 0) & (epochs < len(epoch_ends))
    if len(np.unique(epochs[is_whole])) < FEWEST_EPOCHS:
        return values
    edges = np.concatenate([[at[0]], epoch_ends, [max(at[-1], epoch_ends[-1])]])
    lengths = np.maximum(edges[epochs + 1] - edges[epochs], 1e-9)
    parts = np.clip(PARTS_OF_EPOCH * (at - edges[epochs]) / lengths, 0, PARTS_OF_EPOCH - 1)
    parts = parts.astype(np.int64)
    own = [epochs == epoch for epoch in np.unique(epochs)]
    middles, medians = ([np.median(each[mine]) for mine in own] for each in (at, values))
    apart = values - np.interp(at, middles, medians)
    season = np.zeros(PARTS_OF_EPOCH)
    for part in np.unique(parts[is_whole]):
        season[part] = np.median(apart[is_whole & (parts == part)])
    return np.asarray(values - (season - season.mean())[parts])


RULE = Rule(
    id="no_progress",
    title="Model stopped improving",
    category=TIME,
    version=5,
    needs=(),
    claims_on=WORK,
    parameters=(
        Parameter(
            "share_pct",
            "%",
            20,
            0,
            100,
            "No improvement for this share of the run",
            "ours",
            save=15,
            safe=30,
        ),
        Parameter("fewest", "values", 5, 1, 1e6, "And for this many values", "ours", whole=True),
        Parameter(
            "least_improvement_pct",
            "%",
            1,
            0,
            100,
            "Ignore improvements below",
            "ours",
            measured=True,
        ),
        Parameter("minimum_seconds", "s", 600, 10, 86_400, "Shortest run that is judged", "ours"),
    ),
    measure=measure,
    judge=judge,
)
