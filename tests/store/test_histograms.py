"""The part that a tier keeps of its samples beside their mean: how long they were beyond any
threshold.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trimtab.wire import Block

from advisor.store import chunks
from advisor.store.frames import load_frame
from advisor.store.histogram import MAGNITUDE, PARTS, PERCENT, expand_rows, rolled_up, scale_of
from advisor.store.rows import FIELDS, Rows, no_histograms
from tests.store.runs import CPU, START, compacted, frame_of, of_blocks, segment, store_segments

GPU = "gpu0.busy_pct"


def singles(values: list[float], cadence_ms: int = 500) -> Rows:
    """Return samples from a whole minute of the epoch on."""
    ones = np.ones(len(values), dtype="int64")
    shown = np.array(values, dtype="float64")
    return Rows(
        at_ms=60_000 + cadence_ms * np.arange(len(values)),
        width_ms=0 * ones,
        cadence_ms=cadence_ms * ones,
        low=shown,
        mean=shown,
        high=shown,
        weight=ones,
        count=ones,
        last=np.full(len(values), np.nan),
        histogram=no_histograms(len(values)),
    )


def read_again(values: list[float], tier_seconds: int = 10, series: str = GPU) -> np.ndarray:
    """Return ten values for each cell of the tier, in their order."""
    return expand_rows(rolled_up(singles(values), tier_seconds, series), scale_of(series)).mean


def share_above(values: np.ndarray, threshold: float) -> float:
    return float((np.asarray(values) > threshold).mean())


@given(
    st.lists(st.integers(0, 100), min_size=20, max_size=20),
    st.sampled_from([2.0, 10.0, 20.0, 50.0, 70.0, 90.0, 98.0]),
)
def test_the_time_above_a_threshold_between_two_bins_is_known_to_a_tenth_of_a_cell(
    values: list[int], threshold: float
) -> None:
    found = read_again([value + 0.5 for value in values])
    exact = share_above(np.array(values) + 0.5, threshold)
    assert share_above(found, threshold) == pytest.approx(exact, abs=0.5 / PARTS + 1e-9)


@given(
    st.lists(st.floats(0, 100), min_size=120, max_size=120),
    st.floats(0, 100),
    st.sampled_from([10, 60]),
)
def test_any_other_threshold_is_off_by_the_samples_of_its_bin_at_most(
    values: list[float], threshold: float, tier_seconds: int
) -> None:
    found = read_again(values, tier_seconds)
    near = PERCENT.bins(np.array(values)) == PERCENT.bins(np.array([threshold]))
    off = share_above(found, threshold) - share_above(np.array(values), threshold)
    assert abs(off) <= near.mean() + 0.5 / PARTS + 1e-9


@given(st.lists(st.floats(1e-3, 1e12), min_size=20, max_size=20), st.floats(1e-3, 1e12))
def test_of_amounts_it_knows_the_order_of_magnitude(values: list[float], threshold: float) -> None:
    found = read_again(values, series="disk.read_bytes_total")
    near = MAGNITUDE.bins(np.array(values)) == MAGNITUDE.bins(np.array([threshold]))
    off = share_above(found, threshold) - share_above(np.array(values), threshold)
    assert abs(off) <= near.mean() + 0.5 / PARTS + 1e-9


def test_two_series_of_which_one_rises_as_the_other_falls_still_do_so() -> None:
    random = np.random.default_rng(3)
    busy = np.where(random.random(400) < 0.5, 95.0, 2.0)
    idle_and_loaded = (read_again(list(busy)) < 10) & (
        read_again(list(100 - busy), series=CPU) > 90
    )
    both_idle = (read_again(list(busy)) < 10) & (read_again(list(busy), series=CPU) < 10)
    expected = share_above(100 - busy, 90)
    assert idle_and_loaded.mean() == pytest.approx(expected, abs=0.03)
    assert both_idle.mean() == pytest.approx(expected, abs=0.03)
    never = (read_again(list(busy)) < 10) & (read_again(list(busy), series=CPU) > 90)
    assert never.mean() < 0.03


def test_a_pause_within_a_cell_stays_where_it_was() -> None:
    falls, rises = read_again([90.0] * 12 + [0.0] * 8), read_again([0.0] * 8 + [90.0] * 12)
    assert (falls > 50).tolist() == [True] * 6 + [False] * 4
    assert (rises > 50).tolist() == [False] * 4 + [True] * 6


def test_a_minute_made_of_ten_seconds_is_like_a_minute_made_of_samples() -> None:
    values = [5.0] * 60 + [95.0] * 60
    tens = rolled_up(singles(values), 10, GPU)
    (left,), (right,) = (
        rolled_up(tens, 60, GPU).histogram,
        rolled_up(singles(values), 60, GPU).histogram,
    )
    assert left == right


def test_equal_samples_need_no_histogram() -> None:
    assert set(rolled_up(singles([42.0] * 40), 10, GPU).histogram) == {b""}


@pytest.mark.parametrize(
    ("low", "high", "known"), [(40, 40, True), (40, 43, True), (41, 46, False), (0, 100, False)]
)
def test_an_older_tier_is_unknown_where_lowest_and_highest_cannot_decide(
    low: float, high: float, known: bool
) -> None:
    rows = rolled_up(singles([low] * 10 + [high] * 10), 10, GPU)
    older = replace(rows, histogram=no_histograms(len(rows)))
    assert expand_rows(older, PERCENT).mean.tolist() == ([(low + high) / 2] if known else [])


def test_a_chunk_of_an_older_version_is_read_without_histograms(store, monkeypatch) -> None:
    history = store_segments(store, [segment(i, [20.0] * 10 + [21.0] * 10) for i in range(6)])
    with monkeypatch.context() as patch:
        patch.setattr(chunks, "FIELDS", [name for name in FIELDS if name != "histogram"])
        older = compacted(store, history)
    tiers = tuple(r for r in older.chunks if r.kind != "samples" or r.tier_seconds)
    node = frame_of(store, replace(older, chunks=tiers), 60, 20.0)
    assert node.series(CPU).tolist() == pytest.approx([20.5] * len(node.judged))


def test_ticks_are_single_samples_and_never_means(store) -> None:
    parts = [
        of_blocks(n, [Block(list(range(0, 10_000, 500)), {GPU: [0.0, 100.0] * 10})])
        for n in range(30)
    ]
    history = store_segments(store, parts)
    for each in (history, compacted(store, history)):
        for resolution in (0.5, 1.0, 10.0):
            node = frame_of(store, each, 300, resolution)
            assert node.samples[GPU].mean() == pytest.approx(50.0)
            busy = node.series(GPU)
            assert set(busy) == {0.0, 100.0}
            assert busy.mean() == pytest.approx(50.0, abs=1.0)


def test_a_frame_counts_in_ticks_and_keeps_its_cells(store) -> None:
    history = store_segments(store, [segment(n, [50.0] * 20) for n in range(6)])
    end = START + timedelta(seconds=60)
    frame, _ = load_frame(store, [history], START, end, 10.0, final=True)
    assert (frame.resolution_seconds, frame.cell_seconds) == (0.5, 10.0)
    node = frame.nodes["n1"]
    assert (len(node.samples), len(node.judged)) == (6, 120)
    rates = node.rate("disk.read_bytes_total", frame.resolution_seconds)
    assert rates.median() == pytest.approx(2 * 4096, rel=1e-6)


def test_a_series_without_ticks_has_the_value_of_its_cell(store) -> None:
    columns = {GPU: [50.0] * 20, "user.queue_count": [4.0] * 10 + [6.0] * 10}
    times = list(range(0, 10_000, 500))
    history = store_segments(store, [of_blocks(n, [Block(times, columns)]) for n in range(3)])
    node = frame_of(store, history, 30, 10.0)
    assert node.series("user.queue_count").tolist() == [5.0] * 60
