"""Finds changes within a level that no single run showed: small steps, and slow drifts.

A level's runs are cut in two wherever both sides have enough runs, and again at the time of
30 days before. The cut with the largest difference, in units of its noise, counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from statistics import median

from advisor.successive.noise import LIMIT, Noise, location

LEAST_SIDE = 5
REACH = 3.5
"""Spreads of a difference. Large, because many cuts are tried after each run."""
MONTH = timedelta(days=30)
MONTH_RUNS = 6
"""The most runs that stand for now, and as many for the time a month ago."""


def gradual_change(
    values: Sequence[float], times: Sequence[datetime], noise: Noise, gate: float
) -> int | None:
    """Return the index of the first run of the new level; None without a change by at least `gate`.

    Args:
        values: logarithms, in order, without outliers; `times` are those of the same runs.
    """
    cuts = [*_cuts(values, noise, gate), *_since_a_month(values, times, noise)]
    ratio, at, change = max(cuts, default=(0.0, 0, 0.0), key=lambda cut: cut[0])
    return at if ratio >= 1 and abs(change) >= gate else None


def _cuts(values: Sequence[float], noise: Noise, gate: float) -> list[tuple[float, int, float]]:
    """Return (difference over its margin, index, difference) of each cut. Single runs far off are
    limited, so that they are no change of either side.
    """
    middle, reach = median(values), LIMIT * noise.spread + 2 * gate
    limited = [min(max(value, middle - reach), middle + reach) for value in values]
    sums, count = list(accumulate(limited, initial=0.0)), len(values)
    found = []
    for at in range(LEAST_SIDE, count - LEAST_SIDE + 1):
        change = (sums[count] - sums[at]) / (count - at) - sums[at] / at
        margin = noise.margin(REACH * noise.lasting, at, count - at)
        found.append((abs(change) / margin, at, change))
    return found


def _since_a_month(
    values: Sequence[float], times: Sequence[datetime], noise: Noise
) -> list[tuple[float, int, float]]:
    """Compare the newest runs with those of a month before."""
    old = sum(time <= times[-1] - MONTH for time in times)
    new = min(len(values) - old, MONTH_RUNS)
    if min(old, new) < LEAST_SIDE:
        return []
    before, now = values[max(old - MONTH_RUNS, 0) : old], values[-new:]
    change = location(now, noise.spread) - location(before, noise.spread)
    margin = noise.margin(REACH * noise.lasting, len(before), len(now))
    return [(abs(change) / margin, len(values) - new, change)]
