"""Change points by the definition, one pair of runs after the other."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from advisor.successive.change_points import change_points


def energy_of_two_sides(logs: np.ndarray[Any, Any], point: int) -> float:
    """Matteson and James 2014, (5) and (6), one pair after the other."""
    left, right = list(logs[:point]), list(logs[point:])
    n, m = len(left), len(right)
    between = sum(abs(x - y) for x in left for y in right) / (n * m)
    within = [
        sum(abs(x - y) for i, x in enumerate(side) for y in side[i + 1 :])
        / (len(side) * (len(side) - 1) / 2)
        for side in (left, right)
    ]
    return n * m / (n + m) * (2 * between - sum(within))


def is_change(before: np.ndarray[Any, Any], after: np.ndarray[Any, Any]) -> bool:
    if abs(after.mean() - before.mean()) < math.log(1.05):
        return False
    if before.std() == 0 and after.std() == 0:
        return True
    from scipy import stats  # a second of CPU for each process that collects the tests

    return bool(stats.ttest_ind(before, after, equal_var=False).pvalue < 0.001)


def reference_points(values: list[float]) -> list[int]:
    """Split while there is a change, then remove points that are no longer changes."""
    logs = np.log(values)
    points = reference_split(logs, 0)
    while True:
        edges = [0, *points, len(logs)]
        gone = [
            point
            for before, point, after in zip(edges, points, edges[2:], strict=False)
            if not is_change(logs[before:point], logs[point:after])
        ]
        if not gone:
            return points
        points.remove(gone[0])


def reference_split(logs: np.ndarray[Any, Any], first: int) -> list[int]:
    places = range(3, len(logs) - 2)
    at = max(places, key=lambda place: energy_of_two_sides(logs, place), default=None)
    if at is None or not is_change(logs[:at], logs[at:]):
        return []
    left, right = reference_split(logs[:at], first), reference_split(logs[at:], first + at)
    return [*left, first + at, *right]


@pytest.mark.filterwarnings("ignore:Precision loss")
@pytest.mark.parametrize("seed", range(4))
def test_changes_are_those_of_the_definition_on_levels_with_noise(seed):
    random = np.random.default_rng(seed)
    for _ in range(60):
        length, count = int(random.integers(6, 24)), int(random.integers(1, 6))
        levels = np.cumsum(random.normal(0, random.choice([0.08, 0.15, 0.3]), count))
        noise = random.normal(0, random.choice([0.005, 0.02, 0.05]), length)
        which = np.sort(random.integers(0, count, length))
        values = [float(value) for value in np.exp(levels[which] + noise)]
        assert change_points(values) == reference_points(values)


@pytest.mark.parametrize(
    ("values", "points"),
    [
        ([1.34, 1.27, 1.25, 0.99, 0.95, 0.93, 0.62, 0.58, 0.65], []),
        ([1.43, 1.54, 1.47, 1.45, 1.07, 1.11, 1.11, 0.65, 0.39, 0.38, 0.27, 0.31], []),
        ([0.89, 0.84, 0.76, 1.29, 1.42, 1.24, 1.32, 1.43, 2.47, 2.48], [3]),
        ([1.0, 1.28, 1.28, 1.28, 1.81, 2.53, 2.5, 3.04], []),
        ([0.98, 0.99, 0.98, 1.21, 1.66, 1.67, 1.66, 1.43], [4]),
        ([0.97, 0.95, 0.97, 0.92, 0.91, 0.88, 0.88, 0.88], [3]),
    ],
)
def test_changes_are_those_of_the_definition_where_it_is_close(values, points):
    assert change_points(values) == reference_points(values) == points


@pytest.mark.parametrize(
    ("values", "points"),
    [
        ([1.0] * 3 + [1.051] * 3, [3]),
        ([1.0] * 3 + [1.049] * 3, []),
        ([1.051] * 3 + [1.0] * 3, [3]),
        ([1.0, 1.01, 2.0, 2.02, 1.99, 2.01], []),
        ([1.0] * 3 + [2.0] * 2, []),
        ([1.0] * 4 + [2.0] * 3, [4]),
        ([1.0] * 3 + [2.0] * 5, [3]),
        ([level * v for level in (1, 2, 3, 4) for v in (1.0, 1.01, 0.99)], [3, 6, 9]),
        ([1.0, 1.2, 0.8, 1.3, 1.1, 1.5], []),
        ([], []),
    ],
)
def test_a_level_has_three_runs_and_differs_by_five_percent_beyond_its_noise(values, points):
    assert change_points(values) == points
