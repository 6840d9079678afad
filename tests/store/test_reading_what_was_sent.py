"""Whatever the order, the lateness or the compaction: the same samples, steps and events."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.store.compaction import CompactionError, compact
from advisor.store.frames import load_frame
from advisor.store.index import NodeHistory
from advisor.store.objects import FolderStore
from advisor.store.series import list_series, read_series
from tests.store.runs import SEGMENT_MS, START, segment, store_segments

percentages = st.one_of(st.none(), st.floats(0, 100).map(lambda v: round(v, 1)))
contents = st.lists(st.lists(percentages, min_size=20, max_size=20), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return FolderStore(tmp_path_factory.mktemp("objects"))


def frame_of(store, history, count, resolution_seconds=1.0, start=START):
    end = start + timedelta(milliseconds=SEGMENT_MS * count)
    frame, unreadable = load_frame(store, [history], start, end, resolution_seconds, final=True)
    assert unreadable == ()
    return frame.nodes["n1"]


def hours_of(history) -> list[datetime]:
    first = START.replace(minute=0, second=0, microsecond=0)
    return [first, first + timedelta(hours=1)]


def compacted(store, history: NodeHistory, order: list[datetime]) -> NodeHistory:
    chunks = tuple(ref for hour in order for ref in compact(store, history, hour, "runs/1"))
    return replace(history, segments=(), chunks=chunks)


def assert_same(left, right):
    pd.testing.assert_frame_equal(left.samples, right.samples, check_freq=False)
    pd.testing.assert_frame_equal(left.steps, right.steps)
    pd.testing.assert_frame_equal(left.events, right.events)


@settings(max_examples=25, deadline=None)
@given(contents=contents, data=st.data())
def test_it_reads_the_same_in_any_order_before_and_after_compaction(store, contents, data):
    history = store_segments(store, [segment(i, values) for i, values in enumerate(contents)])
    expected = frame_of(store, history, len(contents))
    shuffled = tuple(data.draw(st.permutations(history.segments)))
    assert_same(frame_of(store, replace(history, segments=shuffled), len(contents)), expected)
    order = data.draw(st.permutations(hours_of(history)))
    assert_same(frame_of(store, compacted(store, history, order), len(contents)), expected)


@settings(max_examples=15, deadline=None)
@given(contents=contents, late=st.integers(0, 5))
def test_it_takes_a_late_segment_into_hours_that_are_compacted(store, contents, late):
    history = store_segments(store, [segment(i, values) for i, values in enumerate(contents)])
    expected = frame_of(store, history, len(contents))
    rest = tuple(ref for ref in history.segments if ref.seq != late % len(contents))
    late_ref = history.segments[late % len(contents)]
    before = compacted(store, replace(history, segments=rest), hours_of(history))
    after = replace(before, segments=(late_ref,))
    assert_same(frame_of(store, after, len(contents)), expected)
    assert_same(
        frame_of(store, compacted(store, after, hours_of(history)), len(contents)), expected
    )


def test_it_keeps_every_sample_and_counter_exactly(store):
    values = [[float(seq * 20 + i) / 10 for i in range(20)] for seq in range(3)]
    history = store_segments(store, [segment(i, v) for i, v in enumerate(values)])
    samples = frame_of(store, history, 3, resolution_seconds=0.5).samples
    assert samples["host.cpu_busy_pct"].tolist() == [v for part in values for v in part]
    expected = [seq * 1_000_003 + i * 4096 for seq in range(3) for i in range(20)]
    assert samples["disk.read_bytes_total"].tolist() == expected


def test_it_shows_a_missing_segment_as_unknown_and_never_as_zero(store):
    present = [segment(0, [50.0] * 20), segment(2, [70.0] * 20)]
    history = store_segments(store, present)
    cpu = frame_of(store, history, 3).samples["host.cpu_busy_pct"].to_numpy()
    assert cpu[:10].tolist() == [50.0] * 10
    assert np.isnan(cpu[10:20]).all()
    assert cpu[20:].tolist() == [70.0] * 10


def test_it_names_an_object_that_is_broken_and_reads_the_rest(store):
    history = store_segments(store, [segment(0, [10.0] * 20), segment(1, [20.0] * 20)])
    store.put(history.segments[0].key, b"broken")
    frame, unreadable = load_frame(
        store, [history], START, START + timedelta(seconds=20), 1.0, final=True
    )
    assert unreadable == (history.segments[0].key,)
    assert not frame.final
    cpu = frame.nodes["n1"].samples["host.cpu_busy_pct"].to_numpy()
    assert np.isnan(cpu[:10]).all()
    assert cpu[10:].tolist() == [20.0] * 10


def test_it_never_compacts_past_an_object_that_it_cannot_read(store):
    history = store_segments(store, [segment(0, [10.0] * 20)])
    store.delete(history.segments[0].key)
    with pytest.raises(CompactionError, match=history.segments[0].key):
        compact(store, history, hours_of(history)[0], "runs/1")


def test_it_gives_the_same_objects_when_it_compacts_again(store):
    history = store_segments(store, [segment(i, [5.0, None] * 10) for i in range(4)])
    once = compacted(store, history, hours_of(history))
    again = compacted(store, history, hours_of(history))
    assert [ref.key for ref in once.chunks] == [ref.key for ref in again.chunks]


@pytest.mark.parametrize("is_compacted", [False, True])
def test_it_draws_least_mean_and_greatest_of_each_bucket_and_leaves_gaps(store, is_compacted):
    parts = [segment(seq, [float(i) for i in range(20)]) for seq in (0, 1, 4)]
    history = store_segments(store, parts)
    if is_compacted:
        history = compacted(store, history, hours_of(history))
    end = START + timedelta(seconds=50)
    (view,) = read_series(store, [history], ["host.cpu_busy_pct"], START, end, 5)
    known = [True, True, False, False, True]
    assert (~np.isnan(view.mean)).tolist() == known
    assert (view.minimum[0], view.maximum[0]) == (0.0, 19.0)
    assert view.mean[0] == pytest.approx(9.5)


def test_it_draws_a_counter_as_its_rate_and_never_across_a_reset_or_gap(store):
    history = store_segments(store, [segment(0, [1.0] * 20), segment(3, [1.0] * 20)])
    end = START + timedelta(seconds=40)
    (view,) = read_series(store, [history], ["disk.read_bytes_total"], START, end, 80)
    assert (view.series, view.unit) == ("disk.read_bytes", "bytes/s")
    rates = view.mean[~np.isnan(view.mean)]
    assert np.allclose(rates, 4096 / 0.5)
    assert np.isnan(view.mean[21:60]).all()


def test_it_lists_the_series_of_hot_and_compacted_nodes(store):
    history = store_segments(store, [segment(0, [1.0] * 20)])
    names = {"n1": ["disk.read_bytes_total", "host.cpu_busy_pct"]}
    assert list_series(store, [history]) == names
    assert list_series(store, [compacted(store, history, hours_of(history))]) == names


@settings(max_examples=15, deadline=None)
@given(contents=contents)
def test_its_tiers_agree_with_the_raw_samples(store, contents):
    history = store_segments(store, [segment(i, values) for i, values in enumerate(contents)])
    raw = [v for part in contents for v in part if v is not None]
    coarse = frame_of(store, compacted(store, history, hours_of(history)), len(contents), 60.0)
    column = coarse.samples.get("host.cpu_busy_pct")
    if not raw:
        assert column is None or column.isna().all()
        return
    assert column.min() >= min(raw) - 1e-9
    assert column.max() <= max(raw) + 1e-9
