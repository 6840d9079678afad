"""Percentiles of series over a whole run: exact of single samples, near of tiers."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest
from trimtab.wire import Block

from advisor.store import series_spread
from advisor.store.reading import Reader
from advisor.store.series_spread import SeriesSpread, spreads_of_series
from tests.store.runs import CPU, START, compacted, of_blocks, store_segments

GPU, CORE = "gpu0.busy_pct", "cpu3.busy_pct"
PERCENTS = (0, 5, 25, 50, 95, 99, 100)
SECONDS = 600
VALUES = np.round(np.random.default_rng(4).beta(2, 1, 2 * SECONDS) * 100, 1)


@pytest.fixture(scope="module")
def reader(store) -> Reader:
    times = [500 * n for n in range(20)]
    parts = VALUES.reshape(-1, 20).tolist()
    blocks = [Block(times, {GPU: part, CORE: part[::-1]}) for part in parts]
    segments = [of_blocks(seq, [block]) for seq, block in enumerate(blocks)]
    return Reader(store, compacted(store, store_segments(store, segments)))


def read(reader: Reader, seconds: float = SECONDS) -> dict[str, SeriesSpread]:
    return spreads_of_series(reader, {GPU, CORE, CPU}, START, START + timedelta(seconds=seconds))


def test_percentiles_of_single_samples_are_numpy_s(reader):
    found = read(reader)
    assert found.keys() == {GPU, CORE}, "nothing is said of a series without samples"
    for spread in found.values():
        assert spread.is_exact
        assert spread.percentiles(PERCENTS) == pytest.approx(np.percentile(VALUES, PERCENTS))
    edges = np.linspace(0, 100, 21)
    assert found[GPU].counts(edges).tolist() == np.histogram(VALUES, edges)[0].tolist()


def test_only_the_time_that_is_asked_for_counts(reader):
    (first, _) = read(reader, 60).values()
    assert len(first.values) == pytest.approx(120, abs=2)


def test_of_a_long_run_they_are_near(reader, monkeypatch):
    """A tier keeps how the values of a GPU are distributed, and the mean of a core."""
    monkeypatch.setattr(series_spread, "MOST_TICKS", 100)
    found = read(reader)
    assert not found[GPU].is_exact
    expected = np.percentile(VALUES, PERCENTS)
    assert found[GPU].percentiles(PERCENTS)[1:-1] == pytest.approx(expected[1:-1], abs=3)
    means = VALUES.reshape(-1, 20).mean(axis=1)
    assert found[CORE].percentiles([50])[0] == pytest.approx(np.median(means), abs=3)
    assert len(found[CORE].values) == pytest.approx(SECONDS / 10, abs=1)
