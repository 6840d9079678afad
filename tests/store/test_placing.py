"""Cells filled from rows: what a series gets doesn't depend on the series filled before it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.store.grid import Grid
from advisor.store.placing import Fill, Placings, last_values, means, picked
from advisor.store.rows import Rows, no_histograms

FILLS = [means, last_values, picked]
GRID = Grid(0.0, 1000.0, np.array([0, 1, 2, 5, 6, 7, 8]))


@st.composite
def series(draw: st.DrawFn) -> Rows:
    """Gauges or counters on one of few rhythms, some samples unknown."""
    spacing = draw(st.sampled_from([400, 1000, 2500]))
    count = draw(st.integers(1, 12))
    known = np.array(draw(st.lists(st.booleans(), min_size=count, max_size=count)))
    numbers = st.floats(0, 1e9)
    value = np.array(draw(st.lists(numbers, min_size=count, max_size=count)))
    is_counter = draw(st.booleans())
    weight = np.where(known, spacing if is_counter else 1, 0)
    mean = np.where(known, value, np.nan)
    at_ms = np.arange(count) * spacing % 9000
    at_ms.sort()
    return Rows(
        at_ms=at_ms,
        width_ms=np.zeros(count, dtype="int64"),
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
