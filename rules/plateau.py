"""Finds since when a noisy metric has stopped improving, as a lower bound.

A metric that improves ever more slowly and one that has reached a plateau look alike in noise. So
curves of many shapes are fitted: some improve to the end, some stop. A plateau is reported as long
as it certainly is: every curve with a shorter one fits much worse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
FEWEST_VALUES = 4
MOST_BINS = 120
EVIDENCE = 11.0
"""The least difference of the logarithm of the sums of squares, times the independent values. In a
likelihood-ratio test with one degree of freedom, 6.6 is 99 %; more, since many shapes are tried: 11
lets through less than one in 200 metrics that improve to the end in noise of 15 %."""
SETTLED_SHARE = 0.1
"""The improvement in this first share of the run doesn't count: it dwarfs all that follows."""
LEAST_SETTLED_SHARE = 0.1
"""The least share of the whole improvement that the rest counts as."""
LEAST_ERROR = 1e-4
"""The least error, as a share of the variance: no curve is told from another by less than a
hundredth of the deviation."""
OUTLIER_DEVIATIONS = 3.0
ROBUST = 1.4826
_FINE = np.linspace(0.0, 1.0, 401)
_STOPS = np.arange(0.0, 1.0001, 0.025)
_BETWEEN = np.arange(-0.02, 0.021, 0.005)
BEST = 12
"""The number of curves that are tried with more stops."""
_WORSENING = (0.0, 0.3, 1.0)
"""The worsening of a curve after its best: none, or this many times the improvement in a whole
run."""


@dataclass(frozen=True)
class _Curves:
    """Shapes of progress, by the share of the run; higher is better."""

    shapes: Floats
    """A row a shape, at `_FINE`, from 0 to 1."""
    shape: NDArray[np.int64]
    """The shape of each curve, and below where it stops and what follows."""
    stop: Floats
    worsening: Floats


def flat_share(values: Floats, at: Floats, least_improvement: float) -> float:
    """Return the share of the time at the end, 0 to 1, that certainly brought no improvement.

    Args:
        values: higher is better.
        at: the time of each value as a share of the run from the first value to the last.
        least_improvement: what counts as none, as a share of the improvement after the start.
    """
    if len(values) < FEWEST_VALUES:
        return 0.0
    if np.ptp(values) == 0:
        return 1.0
    bins, times = _binned(_without_outliers(values), at)
    curves = _curves()
    errors, flats = _errors(curves, bins, times), _common_flat_shares(least_improvement)
    near = _between_stops(curves, errors)
    curves = _joined(curves, near)
    errors = np.concatenate([errors, _errors(near, bins, times)])
    flats = np.concatenate([flats, _flat_shares(near, least_improvement)])
    count = _independent(bins, times, curves, int(np.argmin(errors)))
    return _lower_bound(errors, flats, count)


def _lower_bound(errors: Floats, flats: Floats, count: float) -> float:
    """Return the longest plateau of which all shorter ones fit much worse than it or a longer
    one.
    """
    order = np.argsort(flats)
    errors, flats = errors[order], flats[order]
    shorter = np.minimum.accumulate(errors)
    longer = np.minimum.accumulate(errors[::-1])[::-1]
    firsts = np.flatnonzero(np.diff(flats, prepend=-1.0) > 1e-9)
    certain = [
        flats[first]
        for first in firsts
        if first > 0 and count * math.log(shorter[first - 1] / longer[first]) >= EVIDENCE
    ]
    return float(max(certain, default=0.0))


def _without_outliers(values: Floats) -> Floats:
    """Move values far from the median of their neighbours to it (Hampel's filter)."""
    half = min(5, max((len(values) - 1) // 4, 1))
    padded = np.pad(values, half, mode="reflect" if len(values) > half else "edge")
    near = np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1)
    middle = np.median(near, axis=1)
    spread = ROBUST * float(np.median(np.abs(values - middle)))
    far = np.abs(values - middle) > OUTLIER_DEVIATIONS * spread
    return np.where(far, middle, values) if spread > 0 else values


def _binned(values: Floats, at: Floats) -> tuple[Floats, Floats]:
    """Return the means of equally many neighbouring values, and of their times."""
    if len(values) <= MOST_BINS:
        return values, at
    edges = np.linspace(0, len(values), MOST_BINS + 1).astype(int)[:-1]
    counts = np.diff(edges, append=len(values))
    return np.add.reduceat(values, edges) / counts, np.add.reduceat(at, edges) / counts


def _errors(curves: _Curves, values: Floats, at: Floats) -> Floats:
    """Return the mean squared error of each curve, moved and scaled as fits best; it must
    improve.
    """
    table = _at(curves, at)
    table -= table.mean(axis=1, keepdims=True)
    wanted = values - values.mean()
    size = np.einsum("ij,ij->i", table, table)
    along = table @ wanted
    scale = np.where(size > 0, np.maximum(along, 0.0) / np.maximum(size, 1e-300), 0.0)
    whole = float(wanted @ wanted)
    errors = (whole - 2 * scale * along + scale**2 * size) / len(values)
    return np.asarray(np.maximum(errors, LEAST_ERROR * whole / len(values)))


def _at(curves: _Curves, at: Floats) -> Floats:
    """Return each curve at these times."""
    table = np.empty((len(curves.stop), len(at)))
    for number, shape in enumerate(curves.shapes):
        mine = curves.shape == number
        before = np.minimum(at[None, :], curves.stop[mine, None])
        after = np.maximum(at[None, :] - curves.stop[mine, None], 0.0)
        table[mine] = np.interp(before, _FINE, shape) - curves.worsening[mine, None] * after
    return table


def _between_stops(curves: _Curves, errors: Floats) -> _Curves:
    """Return the curves that fit best, with stops between those of the others.

    A plateau that begins between two stops fits neither well, and what both leave looks as if the
    values weren't independent.
    """
    best = np.argsort(errors, kind="stable")[:BEST]
    stops = curves.stop[best][:, None] + _BETWEEN
    places = np.broadcast_to(best[:, None], stops.shape)[(stops > 0) & (stops < 1)]
    stops = stops[(stops > 0) & (stops < 1)]
    return _Curves(curves.shapes, curves.shape[places], stops, curves.worsening[places])


def _joined(curves: _Curves, more: _Curves) -> _Curves:
    return _Curves(
        curves.shapes,
        np.concatenate([curves.shape, more.shape]),
        np.concatenate([curves.stop, more.stop]),
        np.concatenate([curves.worsening, more.worsening]),
    )


@lru_cache(maxsize=8)
def _common_flat_shares(least_improvement: float) -> Floats:
    """Return those of `_curves`, which are the same for each metric."""
    return _flat_shares(_curves(), least_improvement)


def _flat_shares(curves: _Curves, least_improvement: float) -> Floats:
    """Return how long before the end each curve was first as good as ever, but for the least share
    of its improvement after the start.
    """
    table = _at(curves, _FINE)
    best = table.max(axis=1)
    start = np.searchsorted(_FINE, SETTLED_SHARE)
    whole, rest = best - table[:, 0], best - np.minimum(table[:, start], best)
    counted = np.maximum(rest, LEAST_SETTLED_SHARE * whole)
    enough = (best - least_improvement * counted - 1e-12)[:, None]
    return np.asarray(1.0 - _FINE[np.argmax(table >= enough, axis=1)])


def _independent(values: Floats, at: Floats, curves: _Curves, best: int) -> float:
    """Return the number of independent values: fewer if neighbours err in the same direction."""
    one = _Curves(
        curves.shapes,
        curves.shape[best : best + 1],
        curves.stop[best : best + 1],
        curves.worsening[best : best + 1],
    )
    table = _at(one, at)[0]
    table -= table.mean()
    wanted = values - values.mean()
    size = float(table @ table)
    left = wanted - table * max(float(table @ wanted), 0.0) / size if size > 0 else wanted
    whole = float(left @ left)
    if whole <= LEAST_ERROR * float(wanted @ wanted):
        return float(len(values))
    alike = min(max(float(left[1:] @ left[:-1]) / whole, 0.0), 0.95)
    return len(values) * (1 - alike) / (1 + alike)


@cache
def _curves() -> _Curves:
    shapes = np.array(_shapes())
    rows = [
        (number, stop, worsening)
        for number in range(len(shapes))
        for stop in _STOPS
        for worsening in (_WORSENING if stop < 1 else (0.0,))
        if stop > 0 or (number == 0 and worsening)
    ]
    shape, stop, worsening = (np.array(column) for column in zip(*rows, strict=True))
    return _Curves(shapes, shape.astype(np.int64), stop, worsening.astype(np.float64))


def _shapes() -> list[Floats]:
    """Return shapes from 0 to 1: straight, powers of the time, exponential approaches, power laws,
    late rises.
    """
    grown = [_FINE]
    grown += [_FINE**power for power in (0.5, 2.0)]
    grown += [1 - np.exp(-rate * _FINE) for rate in (1.0, 2.0, 3.0, 4.0, 6.0, 9.0, 14.0, 25.0)]
    grown += [
        1 - (1 + rate * _FINE) ** -power
        for rate in (10.0, 50.0, 250.0, 1000.0)
        for power in (0.05, 0.3, 0.6, 1.0)
    ]
    grown += [
        1 / (1 + np.exp(-(_FINE - middle) / width))
        for middle in (0.2, 0.35, 0.5, 0.65)
        for width in (0.05, 0.1, 0.2)
    ]
    return [(each - each[0]) / (each[-1] - each[0]) for each in grown]
