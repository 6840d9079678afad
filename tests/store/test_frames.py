"""The grid that the rules see: gaps stay gaps, slow series and thinned ones fill their time."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import numpy as np
from trimtab.wire import Block, Event

from advisor.store.frames import load_frame
from tests.store.runs import (
    CPU,
    DISK,
    START,
    assert_same,
    compacted,
    frame_of,
    of_blocks,
    segment,
    store_segments,
)


def test_it_keeps_every_sample_and_counter_exactly(store):
    values = [[float(seq * 20 + i) / 10 for i in range(20)] for seq in range(3)]
    history = store_segments(store, [segment(i, v) for i, v in enumerate(values)])
    for each in (history, compacted(store, history)):
        samples = frame_of(store, each, 30, resolution_seconds=0.5).samples
        assert samples[CPU].tolist() == [v for part in values for v in part]
        expected = [seq * 1_000_003 + i * 4096 for seq in range(3) for i in range(20)]
        assert samples[DISK].tolist() == expected


def test_it_shows_a_missing_segment_as_unknown_and_never_as_zero(store):
    history = store_segments(store, [segment(0, [50.0] * 20), segment(2, [70.0] * 20)])
    for each in (history, compacted(store, history)):
        cpu = frame_of(store, each, 30).samples[CPU].to_numpy()
        assert cpu[:10].tolist() == [50.0] * 10
        assert np.isnan(cpu[10:20]).all()
        assert cpu[20:].tolist() == [70.0] * 10


def test_a_slow_series_fills_a_fine_grid_but_never_its_gaps(store):
    slow = "gpu0.memory_used_bytes"
    parts = [
        of_blocks(seq, [Block([0, 5000], {slow: [seq * 2, seq * 2 + 1]})]) for seq in (0, 1, 4)
    ]
    history = store_segments(store, parts)
    known = frame_of(store, history, 50).samples[slow].to_numpy()
    assert known[:3].tolist() == [0.0] * 3
    assert known[5:8].tolist() == [1.0] * 3
    assert np.isnan(known[17:38]).all()
    assert not np.isnan(known[:17]).any()
    assert not np.isnan(known[38:47]).any()


def test_one_tick_that_is_missing_is_no_gap_and_three_are(store):
    times = [i * 500 for i in range(20) if i not in (4, 10, 11, 12)]
    history = store_segments(store, [of_blocks(0, [Block(times, {CPU: [40.0] * len(times)})])])
    cpu = frame_of(store, history, 10, resolution_seconds=0.5).samples[CPU].to_numpy()
    assert np.flatnonzero(np.isnan(cpu)).tolist() == [10, 11, 12]


def test_a_slow_counter_grows_evenly_between_its_ticks(store):
    ticks = Block([0, 5000], {DISK: [100, 600]})
    history = store_segments(store, [of_blocks(0, [ticks])])
    counter = frame_of(store, history, 10).samples[DISK].to_numpy()
    assert counter[:6].tolist() == [100.0, 200.0, 300.0, 400.0, 500.0, 600.0]


def test_what_the_agent_thinned_stands_for_the_time_before_it(store):
    thin = {f"{CPU}:min": [10], f"{CPU}:mean": [25.5], f"{CPU}:max": [80], f"{CPU}:count": [20]}
    thin |= {f"{DISK}:{s}": [v] for s, v in (("min", 1), ("mean", 5), ("max", 9), ("count", 20))}
    parts = [segment(0, [50.0] * 20), of_blocks(1, [Block([9_500], thin)]), segment(2, [50.0] * 20)]
    history = store_segments(store, parts)
    for each in (history, compacted(store, history)):
        samples = frame_of(store, each, 30).samples
        assert samples[CPU][10:19].tolist() == [25.5] * 9
        assert samples[CPU][20:].tolist() == [50.0] * 10
        assert samples[DISK][19] == 9
    assert_same(frame_of(store, compacted(store, history), 30), frame_of(store, history, 30))


def test_a_value_beyond_32_bits_is_unknown(store):
    history = store_segments(store, [segment(0, [50.0, 1e300] * 10)])
    for each in (history, compacted(store, history)):
        ticks = frame_of(store, each, 10).ticks[CPU]
        assert set(ticks.dropna()) == {50.0}


def test_metrics_that_are_no_numbers_come_back_as_they_were(store):
    values = [math.nan, math.inf, -math.inf]
    events = [Event(i, "metric", {"name": "loss", "value": v}) for i, v in enumerate(values)]
    history = store_segments(store, [replace(of_blocks(0, []), events=events)])
    for each in (history, compacted(store, history)):
        found = [data["value"] for data in frame_of(store, each, 10).events["data"]]
        assert math.isnan(found[0])
        assert found[1:] == [math.inf, -math.inf]


def test_it_reads_the_steps_and_events_of_a_span(store):
    history = store_segments(store, [segment(i, [5.0] * 20) for i in range(6)])
    start, end = START + timedelta(seconds=20), START + timedelta(seconds=41)
    for each in (history, compacted(store, history)):
        frame, unreadable = load_frame(store, [each], start, end, 10, final=True)
        assert unreadable == ()
        steps, events = frame.nodes["n1"].steps, frame.nodes["n1"].events
        assert steps["start_seconds"].round(3).tolist() == [0.0, 5.0, 10.0, 15.0, 20.0]
        assert steps["duration_seconds"].tolist() == [4.0] * 5
        assert events["time_seconds"].tolist() == [9.999, 19.999]
        assert [data["value"] for data in events["data"]] == [2.0, 3.0]


def test_an_empty_node_has_an_empty_frame(store):
    frame = frame_of(store, store_segments(store, []), 10)
    assert frame.samples.shape == (0, 0)
    assert len(frame.steps) == 0
    assert len(frame.events) == 0
