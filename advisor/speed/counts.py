"""The speed at another number of GPUs, from the sizes that were measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from advisor.speed.measurement import Measurement, is_comparable

MOST_IN_NODE = 8
_SPREAD_FITS = 0.05
_SPREAD_WITHIN = 0.05
_SPREAD_BEYOND = 0.10
_SPREAD_ACROSS_NODES = 0.25
"""Standard deviations of log speed. In a node, t = G + C(n - 1)/n errs 1-13 %; across nodes public
data hold 18 cases only."""


@dataclass(frozen=True)
class Scaling:
    """Natural logarithm of the throughput at another count, over the present one."""

    log_ratio: float
    spread: float


def scaling(present: Measurement, measured: Sequence[Measurement], gpus: int) -> Scaling | str:
    """Return how the present run's throughput changes on `gpus` GPUs of the same model.

    Args:
        measured: all of this job's measurements.

    Returns:
        The scaling, or why it is not known.
    """
    if gpus == present.gpus:
        return Scaling(0.0, 0.0)
    sizes = _step_seconds(present, measured)
    if len(sizes) >= 2:
        return _from_sizes(present, sizes, gpus)
    if gpus > present.gpus:
        return f"more GPUs than the {present.gpus} measured; measure a second count first"
    return _from_utilisation(present, gpus)


def _from_utilisation(present: Measurement, gpus: int) -> Scaling | str:
    """Return the scaling to fewer GPUs: all the work fits only if the busy shares add up to no more
    than those.
    """
    busy = present.busy_share
    if busy is None:
        return f"GPU utilisation unknown: fewer than {present.gpus} GPUs can't be judged"
    if busy * present.gpus > gpus:
        return f"the GPUs' utilisation adds up to {busy * present.gpus:.1f} GPUs"
    return Scaling(0.0, _SPREAD_FITS)


def _step_seconds(present: Measurement, measured: Sequence[Measurement]) -> dict[int, float]:
    """Count -> time of a step, in that of one GPU's batch at unit throughput; geometric means."""
    logs: dict[int, list[float]] = {}
    for each in measured:
        if each.gpu == present.gpu and is_comparable(present, each):
            logs.setdefault(each.gpus, []).append(math.log(each.gpus / each.throughput))
    return {gpus: math.exp(sum(values) / len(values)) for gpus, values in logs.items()}


def _from_sizes(present: Measurement, sizes: dict[int, float], gpus: int) -> Scaling | str:
    """Fit t = G + C(n - 1)/n by least squares, C at least 0."""
    largest = max(sizes)
    if gpus > 2 * largest:
        return f"more than twice the {largest} GPUs measured"
    own, other = _fitted(sizes)
    now, then = (own + other * (n - 1) / n for n in (present.gpus, gpus))
    if min(now, then) <= 0:
        return "the measured counts contradict each other"
    ratio = math.log(gpus / present.gpus * now / then)
    return Scaling(ratio, _spread(gpus, min(sizes), largest))


def _fitted(sizes: dict[int, float]) -> tuple[float, float]:
    xs = [(n - 1) / n for n in sizes]
    ts = list(sizes.values())
    mean_x, mean_t = sum(xs) / len(xs), sum(ts) / len(ts)
    spread = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (t - mean_t) for x, t in zip(xs, ts, strict=True)) / spread
    slope = max(slope, 0.0)
    return mean_t - slope * mean_x, slope


def _spread(gpus: int, smallest: int, largest: int) -> float:
    if gpus > MOST_IN_NODE:
        return _SPREAD_ACROSS_NODES
    return _SPREAD_WITHIN if smallest <= gpus <= largest else _SPREAD_BEYOND
