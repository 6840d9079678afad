"""Finds where the level of a series changed: E-divisive with a t-test instead of permutations.

The energy statistic between two parts of a series (Matteson and James, "A nonparametric approach
for multiple change point analysis of multivariate data", JASA 109, 2014) gives the position of a
possible change; Welch's t-test decides whether it is one. Both sides have at least three runs, so
that a single outlier is not a change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

LEAST_SEGMENT = 3
MOST_P = 0.001
GATE = 0.05
MOST_POINTS = 60
"""The longest history that is used. Older runs don't matter now, and the work is quadratic."""


def change_points(values: Sequence[float]) -> list[int]:
    """Indices of the first value of each new level, in order; values above 0.

    A change is at least 5 % and would occur by chance once in a thousand cases.
    """
    logs = np.log(np.asarray(values, dtype=float))
    points = sorted(_split(logs, 0, len(logs)))
    while True:
        edges = [0, *points, len(logs)]
        weak = [
            point
            for before, point, after in zip(edges, edges[1:], edges[2:], strict=False)
            if not _is_change(logs[before:point], logs[point:after])
        ]
        if not weak:
            return points
        points.remove(weak[0])


def _split(logs: Any, start: int, end: int) -> list[int]:
    """The strongest change in a range, then those before and after it."""
    point = _strongest(logs[start:end])
    if point is None or not _is_change(logs[start : start + point], logs[start + point : end]):
        return []
    middle = start + point
    return [*_split(logs, start, middle), middle, *_split(logs, middle, end)]


def _strongest(logs: Any) -> int | None:
    """The index with the largest energy statistic; None: too short for two sides."""
    count = len(logs)
    if count < 2 * LEAST_SEGMENT:
        return None
    distances = np.abs(logs[:, None] - logs[None, :])
    sums = np.pad(distances.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    points = np.arange(LEAST_SEGMENT, count - LEAST_SEGMENT + 1)
    left, right = points, count - points
    between = sums[points, count] - sums[points, points]
    within_left = sums[points, points]
    within_right = sums[count, count] - 2 * sums[points, count] + sums[points, points]
    energy = (
        2 * between / (left * right)
        - within_left / (left * np.maximum(left - 1, 1))
        - within_right / (right * np.maximum(right - 1, 1))
    )
    return int(points[np.argmax(energy * left * right / count)])


def _is_change(before: Any, after: Any) -> bool:
    if min(len(before), len(after)) < LEAST_SEGMENT:
        return False
    step = abs(float(after.mean() - before.mean()))
    if step < math.log1p(GATE):
        return False
    if before.std() == after.std() == 0:
        return True
    return _welch_p_value(before, after) < MOST_P


def _welch_p_value(before: Any, after: Any) -> float:
    """Two-sided, of Welch's t-test (Biometrika 34, 1947), with Satterthwaite's degrees of freedom.

    `scipy.stats` has it, too, but its import takes 0.7 s of each process that analyses.
    """
    # Imported here, because it would delay the start of every process by 0.4 s.
    from scipy import special

    own = [(float(side.var(ddof=1)) / len(side), len(side) - 1) for side in (before, after)]
    variance = sum(part for part, _ in own)
    freedom = variance**2 / sum(part**2 / degrees for part, degrees in own)
    t = abs(float(before.mean() - after.mean())) / math.sqrt(variance)
    return 2 * float(special.stdtr(freedom, -t))
