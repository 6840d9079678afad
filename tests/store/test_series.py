"""Series as pages draw them: tiers that agree with raw samples, rates, gaps."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trimtab.wire import Block

from advisor.store.chunks import decode_tier
from advisor.store.series import list_series, read_series, shown_name
from tests.store.runs import CPU, DISK, START, compacted, of_blocks, segment, store_segments

TICKS = 20
values = st.lists(st.one_of(st.none(), st.integers(0, 10**9)), min_size=TICKS, max_size=TICKS)


class Counting:
    """A store that remembers what was read."""

    def __init__(self, store):
        self.store, self.keys = store, []

    def get(self, key):
        self.keys.append(key)
        return self.store.get(key)


def drawn(store, history, names, seconds, buckets, start=START):
    end = start + timedelta(seconds=seconds)
    return read_series(store, [history], names, start, end, buckets)


def raw_points(contents, pick):
    """Return (Unix milliseconds, value) of every known sample."""
    start_ms = round(START.timestamp() * 1000)
    return [
        (start_ms + seq * 10_000 + i * 500, value)
        for seq, part in enumerate(contents)
        for i, value in enumerate(pick(seq, part))
        if value is not None
    ]


@settings(max_examples=20, deadline=None)
@given(contents=st.lists(values, min_size=1, max_size=8), tier=st.sampled_from([10, 60]))
def test_tiers_hold_what_the_raw_samples_say(store, contents, tier):
    history = compacted(
        store, store_segments(store, [segment(i, v) for i, v in enumerate(contents)])
    )
    expected: dict[int, list[float]] = {}
    for time_ms, value in raw_points(contents, lambda _, part: part):
        expected.setdefault(time_ms // (tier * 1000) * tier * 1000, []).append(value)
    by_cell = {}
    for ref in history.chunks:
        if (ref.kind, ref.tier_seconds) == ("samples", tier):
            rows = decode_tier(store.get(ref.key), [CPU])[0].get(CPU)
            for i in range(len(rows) if rows else 0):
                by_cell[int(rows.at_ms[i]) - tier * 500] = (
                    rows.low[i],
                    rows.mean[i],
                    rows.high[i],
                    rows.count[i],
                )
    assert by_cell == {
        cell: (min(v), pytest.approx(sum(v) / len(v)), max(v), len(v))
        for cell, v in expected.items()
    }


@settings(max_examples=20, deadline=None)
@given(
    growth=st.lists(
        st.one_of(st.none(), st.integers(0, 10**12)), min_size=TICKS * 4, max_size=TICKS * 4
    )
)
def test_a_tier_of_rates_adds_up_to_the_growth_of_the_counter(store, growth):
    total, counter = 0, []
    for step in growth:
        total += step or 0
        counter.append(None if step is None else total)
    parts = [
        of_blocks(i, [Block([t * 500 for t in range(TICKS)], {DISK: counter[i * TICKS :][:TICKS]})])
        for i in range(4)
    ]
    history = compacted(store, store_segments(store, parts))
    known = [(i * 500, v) for i, v in enumerate(counter) if v is not None]
    hour_starts_at = 29_750
    pairs = [
        (b[1] - a[1], b[0] - a[0])
        for a, b in pairwise(known)
        if b[0] - a[0] <= 1250 and (a[0] < hour_starts_at) == (b[0] < hour_starts_at)
    ]
    for tier in (10, 60):
        rows = [
            decode_tier(store.get(r.key), [DISK])[0].get(DISK)
            for r in history.chunks
            if (r.kind, r.tier_seconds) == ("samples", tier)
        ]
        weight = sum(int(r.weight.sum()) for r in rows if r)
        grown = sum(float(np.nansum(r.mean * r.weight)) / 1000 for r in rows if r)
        assert weight == sum(ms for _, ms in pairs)
        assert grown == pytest.approx(sum(step for step, _ in pairs))


@pytest.mark.parametrize("is_compacted", [False, True])
@pytest.mark.parametrize("buckets", [5, 50, 100])
def test_it_draws_least_mean_and_greatest_of_each_bucket_and_leaves_gaps(
    store, is_compacted, buckets
):
    parts = [segment(seq, [float(i) for i in range(20)]) for seq in (0, 1, 4)]
    history = store_segments(store, parts)
    history = compacted(store, history) if is_compacted else history
    # The tiers' cells count from the epoch: a start on a cell's edge makes them the buckets.
    start = START.replace(microsecond=0)
    (view,) = drawn(store, history, [CPU], 50, buckets, start)
    assert len(view.t_seconds) == buckets
    assert view.t_seconds[-1] == pytest.approx(50 - 50 / buckets)
    known = np.repeat([True, True, False, False, True], buckets // 5)
    assert (~np.isnan(view.mean)).tolist() == known.tolist()
    assert (np.nanmin(view.minimum), np.nanmax(view.maximum)) == (0.0, 19.0)
    if buckets == 5:
        assert view.mean[0] == pytest.approx(9.5)
        assert (view.minimum[0], view.maximum[0]) == (0.0, 19.0)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_late_segment_shows_before_it_is_compacted(store, is_compacted):
    history = store_segments(store, [segment(i, [float(i)] * 20) for i in range(3)])
    early = compacted(store, replace(history, segments=history.segments[:2]))
    late = replace(early, segments=history.segments[2:])
    late = compacted(store, late) if is_compacted else late
    (view,) = drawn(store, late, [CPU], 30, 3, START.replace(microsecond=0))
    assert view.mean.tolist() == [0.0, 1.0, 2.0]


def test_it_draws_a_counter_as_its_rate_and_never_across_a_gap(store):
    history = store_segments(store, [segment(0, [1.0] * 20), segment(3, [1.0] * 20)])
    (view,) = drawn(store, history, [DISK], 40, 80)
    assert (view.series, view.unit) == ("disk.read_bytes", "bytes/s")
    rates = view.mean[~np.isnan(view.mean)]
    assert np.allclose(rates, 4096 / 0.5)
    assert np.isnan(view.mean[20:60]).all()
    assert len(rates) == 40 - 2


@pytest.mark.parametrize("seconds", [40, 4000])
def test_a_counter_that_starts_again_has_no_rate_at_that_tick(store, seconds):
    counter = [10**12 + i * 500 for i in range(10)] + [i * 500 for i in range(10)]
    parts = [of_blocks(0, [Block([i * 500 for i in range(20)], {DISK: counter})])]
    history = compacted(store, store_segments(store, parts))
    (view,) = drawn(store, history, [DISK], seconds, 40)
    assert np.nanmin(view.minimum) == np.nanmax(view.maximum) == 1000.0


def test_the_greatest_rate_survives_in_the_tiers(store):
    counter = [0] * 10 + [5000] * 10
    parts = [of_blocks(0, [Block([i * 500 for i in range(20)], {DISK: counter})])]
    history = compacted(store, store_segments(store, parts))
    (view,) = drawn(store, history, [DISK], 3600, 60)
    assert np.nanmax(view.maximum) == 10_000.0
    assert np.nanmax(view.mean) == pytest.approx(5000 / 9.5)


def test_wide_buckets_read_tiers_and_never_raw_samples(store):
    history = compacted(store, store_segments(store, [segment(i, [1.0] * 20) for i in range(9)]))
    for seconds, tier in ((3600 * 24, 60), (3600, 10)):
        counting = Counting(store)
        drawn(counting, history, [CPU], seconds, 120)
        assert len(counting.keys) == 2
        assert all(f"-samples-{tier}-" in key for key in counting.keys)


def test_it_reads_only_hours_that_are_asked_for(store):
    history = compacted(store, store_segments(store, [segment(i, [1.0] * 20) for i in range(9)]))
    counting = Counting(store)
    drawn(counting, history, [CPU], 20, 20)
    assert len(counting.keys) == 1
    assert "T11-samples-0-" in counting.keys[0]


def test_it_lists_the_series_of_hot_and_compacted_nodes(store):
    thinned = {f"gpu0.busy_pct:{s}": [1] for s in ("min", "mean", "max", "count")}
    parts = [segment(0, [1.0] * 20), of_blocks(1, [Block([0], thinned)]), segment(2, [1.0] * 20)]
    history = store_segments(store, parts)
    names = {"n1": [DISK, "gpu0.busy_pct", CPU]}
    assert list_series(store, [history]) == names
    cold = compacted(store, history)
    assert list_series(store, [cold]) == names
    tiers = tuple(ref for ref in cold.chunks if ref.tier_seconds)
    assert list_series(store, [replace(cold, chunks=tiers)]) == names


def test_a_view_names_the_objects_that_could_not_be_read(store):
    history = store_segments(store, [segment(0, [1.0] * 20), segment(1, [2.0] * 20)])
    store.delete(history.segments[1].key)
    (view,) = drawn(store, history, [CPU], 20, 2)
    assert view.unreadable == (history.segments[1].key,)
    assert view.mean[0] == 1.0
    assert np.isnan(view.mean[1])


def test_a_series_that_a_node_does_not_have_is_left_out(store):
    history = store_segments(store, [segment(0, [None] * 20)])
    assert drawn(store, history, ["gpu0.busy_pct", CPU], 10, 10) == []


@pytest.mark.parametrize(
    ("series", "shown"),
    [
        ("disk.read_bytes_total", ("disk.read_bytes", "bytes/s")),
        ("host.cpu_busy_pct", ("host.cpu_busy_pct", "pct")),
        ("gpu0.power_watts", ("gpu0.power_watts", "watts")),
    ],
)
def test_a_counter_is_shown_under_the_name_of_its_rate(series, shown):
    assert shown_name(series) == shown
