"""Cells filled from rows: what a series gets doesn't depend on the series filled before it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.store.grid import SampleGrid
from advisor.store.placing import Fill, Placings, last_values, means, picks
from advisor.store.rows import Rows, no_histograms

FILLS = [means, last_values, picks]
GRID = SampleGrid(0.0, 1000.0, np.array([0, 1, 2, 5, 6, 7, 8]))


@st.composite
def series(draw: st.DrawFn) -> Rows:
    """Draw gauges or counters on one of few rhythms, some samples unknown; or none."""
    spacing = draw(st.sampled_from([400, 1000, 2500]))
    count = draw(st.integers(0, 12))
    known = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    numbers = st.floats(0, 1e9)
    value = np.array(draw(st.lists(numbers, min_size=count, max_size=count)))
    is_counter = draw(st.booleans())
    weights = st.lists(st.integers(1, 3), min_size=count, max_size=count)
    weight = np.where(known, draw(weights), 0)
    mean = np.where(known, value, np.nan)
    at_ms = np.arange(count) * spacing % 9000
    at_ms.sort()
    return Rows(
        at_ms=at_ms,
        width_ms=np.full(count, draw(st.sampled_from([0, spacing]))),
        cadence_ms=np.full(count, draw(st.sampled_from([spacing, 3 * spacing]))),
        low=mean,
        mean=mean,
        high=mean,
        weight=weight,
        count=known.astype("int64"),
        last=np.maximum.accumulate(value) if is_counter else np.full(count, np.nan),
        histogram=no_histograms(count),
    )


@pytest.mark.parametrize("fill", FILLS)
@given(st.lists(series(), min_size=1, max_size=6), st.integers(0, 6))
def test_other_series_change_nothing(fill: Fill, every: list[Rows], low: int) -> None:
    shared = Placings(GRID)
    together = [fill(rows, shared, low, GRID.count) for rows in every]
    alone = [fill(rows, Placings(GRID), low, GRID.count) for rows in every]
    np.testing.assert_array_equal(together, alone)


@given(st.lists(series(), min_size=1, max_size=6))
def test_a_mean_is_that_of_the_known_samples_in_its_cell(every: list[Rows]) -> None:
    shared = Placings(GRID)
    for rows in every:
        found = means(rows, shared, 0, GRID.count)
        for place, cell in enumerate(GRID.cells):
            inside = (rows.at_ms // 1000 == cell) & (rows.count > 0)
            if inside.any():
                expected = np.average(rows.mean[inside], weights=rows.weight[inside])
                assert found[place] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("times", "values"),
    [
        ("at_ms", [500, 1500, 5500]),
        ("width_ms", [0, 0, 4000]),
        ("cadence_ms", [1000, 4000, 4000]),
        ("weight", [3, 1, 1]),
    ],
)
def test_a_series_with_other_times_falls_elsewhere(times: str, values: list[int]) -> None:
    size = 3
    value, ones = np.array([1.0, 2.0, 4.0]), np.ones(size, dtype="int64")
    one = Rows(
        at_ms=np.array([200, 700, 5500]),
        width_ms=np.zeros(size, dtype="int64"),
        cadence_ms=1000 * ones,
        low=value,
        mean=value,
        high=value,
        weight=ones,
        count=ones,
        last=value,
        histogram=no_histograms(size),
    )
    shared = Placings(GRID)
    first = means(one, shared, 0, GRID.count)
    other = replace(one, **{times: np.array(values)})
    second = means(other, shared, 0, GRID.count)
    np.testing.assert_array_equal(second, means(other, Placings(GRID), 0, GRID.count))
    assert not np.array_equal(first, second, equal_nan=True)
