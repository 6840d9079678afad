"""Two modes in the runs of a job: two kinds of machines, say, whose names nobody knows.

A robust spread takes the smaller mode for outliers. So if runs come and go between two modes,
their noise is the standard deviation, which contains the distance of the modes. The modes are
split where the variance between them is largest (Otsu, "A threshold selection method from
gray-level histograms", IEEE Transactions on Systems, Man, and Cybernetics 9, 1979), and must lie
apart as Ashman, Bird and Zepf ask ("Detecting bimodality in astronomical datasets", Astronomical
Journal 108, 1994).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate, pairwise
from statistics import fmean

LEAST_RUNS, LEAST_SHARE = 3, 0.2
"""The least runs of the smaller mode, and their share: fewer are outliers."""
LEAST_APART = 3.0
"""Spreads within the modes. Halves of a normal distribution are 2.6 apart."""
LEAST_TURNS = 5
"""A change, its end and an outlier are four turns."""


def spread_of_two(values: Sequence[float]) -> float | None:
    """Return the standard deviation of runs that come and go between two modes, or None if
    they don't.

    Args:
        values: logarithms, in the order of the runs.
    """
    split = _split(sorted(values))
    if split is None:
        return None
    turns = sum((a > split) != (b > split) for a, b in pairwise(values))
    return math.sqrt(_variance(values)) if turns >= LEAST_TURNS else None


def _split(ordered: Sequence[float]) -> float | None:
    """Return the largest value of the lower mode, or None if there is one mode."""
    count = len(ordered)
    least = max(LEAST_RUNS, math.ceil(LEAST_SHARE * count))
    if count < 2 * least:
        return None
    sums = list(accumulate(ordered, initial=0.0))
    mean = sums[-1] / count

    def between(at: int) -> float:
        return (sums[at] - at * mean) ** 2 / (at * (count - at))

    at = max(range(least, count - least + 1), key=between)
    lower, upper = ordered[:at], ordered[at:]
    within = math.sqrt((_variance(lower) + _variance(upper)) / 2)
    return lower[-1] if fmean(upper) - fmean(lower) > LEAST_APART * within else None


def _variance(values: Sequence[float]) -> float:
    mean = fmean(values)
    return fmean([(value - mean) ** 2 for value in values])
