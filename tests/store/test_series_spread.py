"""Percentiles of series over a whole run: exact of single samples, near of tiers."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import pytest
from trimtab.wire import Block
from trimtab.wire.segment import Number

from advisor.store import series_spread
from advisor.store.objects import ObjectStore
from advisor.store.reading import NodeReader
from advisor.store.series_spread import SeriesSpread, spreads_of_series
from tests.store.runs import CPU, DISK, SEGMENT_MS, START, compacted, of_blocks, store_segments

GPU, CORE, MEMORY = "gpu0.busy_pct", "cpu3.busy_pct", "gpu0.memory_used_bytes"
PERCENTS = (0, 5, 25, 50, 75, 95, 99, 100)
GIB = 2.0**30
SECONDS = 600
VALUES = np.round(np.random.default_rng(4).beta(2, 1, 2 * SECONDS) * 100, 1)


@pytest.fixture(scope="module")
def reader(store) -> NodeReader:
    times = [500 * n for n in range(20)]
    parts = VALUES.reshape(-1, 20).tolist()
    blocks = [Block(times, {GPU: part, CORE: part[::-1]}) for part in parts]
    segments = [of_blocks(seq, [block]) for seq, block in enumerate(blocks)]
    return NodeReader(store, compacted(store, store_segments(store, segments)))


def read(reader: NodeReader, seconds: float = SECONDS) -> dict[str, SeriesSpread]:
    names = {GPU, CORE, CPU, MEMORY, DISK}
    return spreads_of_series(reader, names, START, START + timedelta(seconds=seconds))


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
    assert found[GPU].percentiles(PERCENTS) == pytest.approx(expected, abs=3)
    means = VALUES.reshape(-1, 20).mean(axis=1)
    assert found[CORE].percentiles([50])[0] == pytest.approx(np.median(means), abs=3)
    assert found[CORE].percentiles([0, 100]) == [VALUES.min(), VALUES.max()]
    assert len(found[CORE].values) == pytest.approx(SECONDS / 10, abs=1)


def stored(
    store: ObjectStore, values: Sequence[Number] | np.ndarray, interval_ms: int, name: str = GPU
) -> NodeReader:
    """Return one series, sampled at this interval and compacted."""
    each = SEGMENT_MS // interval_ms
    times = [interval_ms * n for n in range(each)]
    listed = [float(v) if isinstance(v, float) else int(v) for v in values]
    parts = [listed[at : at + each] for at in range(0, len(listed), each)]
    blocks = [Block(times, {name: list(part)}) for part in parts]
    segments = [of_blocks(seq, [block]) for seq, block in enumerate(blocks)]
    return NodeReader(store, compacted(store, store_segments(store, segments)))


def mixed(count: int) -> np.ndarray:
    """Return 80 for half of the time, then anything: a median that biased weights miss."""
    half = count // 2
    varied = np.round(np.random.default_rng(5).uniform(0, 90, count - half), 1)
    return np.concatenate([np.full(half, 80.0), varied])


@pytest.mark.parametrize("interval_ms", [500, 1000, 2000, 5000])
def test_of_a_long_run_extremes_are_exact_and_the_rest_near(store, monkeypatch, interval_ms):
    """The interval doesn't matter: a cell weighs as many samples as it has, varied or steady."""
    monkeypatch.setattr(series_spread, "MOST_TICKS", 100)
    values = mixed(SECONDS * 1000 // interval_ms)
    found = read(stored(store, values, interval_ms))[GPU]
    assert not found.is_exact
    expected = np.percentile(values, PERCENTS)
    got = found.percentiles(PERCENTS)
    assert (got[0], got[-1]) == pytest.approx((values.min(), values.max()))
    assert got == pytest.approx(expected, abs=3)


def test_the_one_highest_sample_of_a_long_run_is_its_maximum(store, monkeypatch):
    monkeypatch.setattr(series_spread, "MOST_TICKS", 100)
    used = np.full(2 * SECONDS, 40.0 * GIB)
    used[777] = 79.0 * GIB
    found = read(stored(store, used, 500, MEMORY))[MEMORY]
    assert [each / GIB for each in found.percentiles([0, 50, 100])] == pytest.approx([40, 40, 79])


def test_fewer_cells_are_coarser_ones(reader, monkeypatch):
    monkeypatch.setattr(series_spread, "MOST_TICKS", 100)
    end = START + timedelta(seconds=SECONDS)
    found = spreads_of_series(reader, {CORE}, START, end, most_cells=20)[CORE]
    assert len(found.values) == pytest.approx(SECONDS / 60, abs=1)
    assert (found.least, found.most) == (VALUES.min(), VALUES.max())


def test_many_values_are_put_together_and_stay_near(reader, monkeypatch):
    monkeypatch.setattr(series_spread, "MOST_POINTS", 300)
    found = read(reader)[GPU]
    assert not found.is_exact
    assert found.weights.sum() == pytest.approx(len(VALUES))
    expected = np.percentile(VALUES, PERCENTS, method="inverted_cdf")
    assert found.percentiles(PERCENTS) == pytest.approx(expected, rel=1 / 2000)


@pytest.mark.parametrize("most_ticks", [36_000, 100], ids=["samples", "tiers"])
def test_a_counter_has_the_amount_that_was_counted(store, monkeypatch, most_ticks):
    monkeypatch.setattr(series_spread, "MOST_TICKS", most_ticks)
    counts = (np.arange(2 * SECONDS) * 1000).tolist()
    spread = read(stored(store, counts, 500, DISK))[DISK]
    assert spread.percentiles([50]) == pytest.approx([2000], rel=0.05)
    assert spread.amount == pytest.approx(counts[-1], rel=0.01)


def test_what_is_held_of_five_hours_is_little(store):
    """Four bytes a sample, not the eighty of rows in work."""
    reader = stored(store, np.tile(VALUES, 30)[:36_000], 500)
    tracemalloc.start()
    read(reader, 18_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * 2**20
