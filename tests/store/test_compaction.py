"""Compaction loses nothing, even if objects are broken, expired or wrong."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from trimtab.wire import Block, Event, StepBlock, StepSummary

from advisor.store.chunks import decode_table, decode_ticks, encode_table
from advisor.store.compaction import CompactionError, compact
from advisor.store.frames import load_frame
from tests.store.runs import (
    CPU,
    DISK,
    SEGMENT_MS,
    START,
    compacted,
    frame_of,
    hours_of,
    of_blocks,
    segment,
    store_segments,
)


def test_counters_beyond_what_a_float_holds_stay_whole(store):
    values = [2**60 + 1, 2**60 + 2, None, 2**63 - 1]
    blocks = [Block([0, 500, 1000, 1500], {DISK: values})]
    (ref,) = [
        ref
        for ref in compacted(store, store_segments(store, [of_blocks(0, blocks)])).chunks
        if (ref.kind, ref.tier_seconds) == ("samples", 0)
    ]
    ((ticks,), _) = decode_ticks(store.get(ref.key))
    kept, known = ticks.columns[DISK]
    assert kept.dtype == np.int64
    assert known.tolist() == [True, True, False, True]
    assert kept[known].tolist() == [2**60 + 1, 2**60 + 2, 2**63 - 1]


def test_it_names_an_object_that_is_broken_and_reads_the_rest(store):
    history = store_segments(store, [segment(0, [10.0] * 20), segment(1, [20.0] * 20)])
    store.put(history.segments[0].key, b"broken")
    frame, unreadable = load_frame(
        store, [history], START, START + timedelta(seconds=20), 1.0, final=True
    )
    assert unreadable == (history.segments[0].key,)
    assert not frame.final
    cpu = frame.nodes["n1"].samples[CPU].to_numpy()
    assert np.isnan(cpu[:10]).all()
    assert cpu[10:].tolist() == [20.0] * 10


@pytest.mark.parametrize("body", [None, b"", b"PAR1 no more", "foreign", "damaged"])
def test_it_names_a_chunk_that_is_broken_and_reads_the_other_hours(store, body):
    history = compacted(store, store_segments(store, [segment(i, [20.0] * 20) for i in range(6)]))
    broken = next(r for r in history.chunks if (r.kind, r.tier_seconds) == ("samples", 0))
    if body is None:
        store.delete(broken.key)
    elif body == "damaged":
        store.put(broken.key, store.get(broken.key).replace(b'"members"', b'"\xfdembers"'))
    else:
        store.put(broken.key, _foreign_parquet() if body == "foreign" else body)
    end = START + timedelta(seconds=60)
    frame, unreadable = load_frame(store, [history], START, end, 1.0, final=True)
    assert unreadable == (broken.key,)
    cpu = frame.nodes["n1"].samples[CPU].to_numpy()
    assert np.isnan(cpu[:29]).all()
    assert cpu[31:].tolist() == [20.0] * 29
    with pytest.raises(CompactionError, match=broken.key):
        compact(store, history, broken.starts_at, "runs/1")


def _foreign_parquet() -> bytes:
    return pd.DataFrame({"a": [1]}).to_parquet()


def test_it_never_compacts_past_an_object_that_it_cannot_read(store):
    history = store_segments(store, [segment(0, [10.0] * 20)])
    store.delete(history.segments[0].key)
    with pytest.raises(CompactionError, match=history.segments[0].key):
        compact(store, history, hours_of(history)[0], "runs/1")


def test_a_late_segment_never_takes_the_tiers_place_of_raw_samples_that_are_no_longer_kept(store):
    parts = [segment(i, [10.0 * (i + 1)] * 20) for i in range(6)]
    history = store_segments(store, parts)
    rest = replace(history, segments=(*history.segments[:4], history.segments[5]))
    aged = compacted(store, rest)
    tiers = tuple(r for r in aged.chunks if r.kind != "samples" or r.tier_seconds)
    late = compacted(store, replace(aged, chunks=tiers, segments=history.segments[4:5]))
    expected = frame_of(store, history, 60, 20.0).samples
    pd.testing.assert_frame_equal(frame_of(store, late, 60, 20.0).samples, expected)
    again = compacted(store, replace(late, segments=history.segments[5:]))
    pd.testing.assert_frame_equal(frame_of(store, again, 60, 20.0).samples, expected)


def test_it_reads_the_finest_tier_where_raw_samples_are_no_longer_kept(store):
    history = compacted(store, store_segments(store, [segment(i, [30.0] * 20) for i in range(6)]))
    tiers = tuple(r for r in history.chunks if r.kind != "samples" or r.tier_seconds)
    cpu = frame_of(store, replace(history, chunks=tiers), 60).samples[CPU]
    assert cpu.tolist() == [30.0] * 60


def test_it_gives_the_same_objects_when_it_compacts_again(store):
    history = store_segments(store, [segment(i, [5.0, None] * 10) for i in range(4)])
    once = compacted(store, history)
    again = compacted(store, replace(once, segments=history.segments))
    assert [ref.key for ref in once.chunks] == [ref.key for ref in again.chunks]
    for ref in once.chunks:
        assert f"n1/{ref.starts_at:%Y%m%dT%H}-{ref.kind}-{ref.tier_seconds}-" in ref.key


def test_steps_keep_their_tokens_and_have_none_where_an_earlier_version_stored_them(store):
    blocks = [StepBlock(0, "train", [0, 500], [9, 9], [1, 1], [2, 2], [128, None])]
    history = store_segments(store, [replace(of_blocks(0, []), steps=blocks)])
    after = compacted(store, history)
    for each in (history, after):
        first, second = frame_of(store, each, 10).steps["tokens"]
        assert first == 128
        assert math.isnan(second)
    (ref,) = (ref for ref in after.chunks if ref.kind == "steps" and not ref.tier_seconds)
    table, members = decode_table(store.get(ref.key))
    store.put(ref.key, encode_table(table.drop_columns(["tokens"]), members))
    earlier = frame_of(store, after, 10).steps
    assert earlier["samples"].tolist() == [2, 2]
    assert earlier["tokens"].isna().all()


def test_steps_too_many_to_keep_singly_keep_their_histogram_and_their_samples(store):
    summary = StepSummary(1, "train", 2000, 400, 1_000_000, 1_500, 9_000, None, 12_800)
    summary.histogram.update({42: 390, 50: 10})
    summary.slowest_us.extend([9_000, 8_000])
    summary.tokens = 409_600
    history = store_segments(store, [replace(of_blocks(0, []), step_summaries=[summary])])
    after = compacted(store, history)
    for each in (history, after):
        (row,) = frame_of(store, each, 10).steps.to_dict("records")
        assert (row["rank"], row["count"], row["samples"]) == (1, 400, 12_800)
        assert row["duration_seconds"] == pytest.approx(0.0025)
        assert row["start_seconds"] == pytest.approx(2.0)
        assert math.isnan(row["data_wait_seconds"])
    refs = {ref.tier_seconds: ref for ref in after.chunks if ref.kind == "steps"}
    (cell,) = decode_table(store.get(refs[10].key))[0].to_pylist()
    assert (cell["count"], cell["samples"], cell["wait_count"]) == (400, 12_800, 0)
    assert (cell["duration_min_us"], cell["duration_max_us"]) == (1_500, 9_000)
    assert dict(cell["histogram"]) == {42: 390, 50: 10}
    ref = refs[0]
    (stored,) = decode_table(store.get(ref.key))[0].to_pylist()
    assert dict(stored["histogram"]) == {42: 390, 50: 10}
    assert (stored["slowest_us"], stored["tokens"]) == ([9_000, 8_000], 409_600)
    assert (stored["duration_min_us"], stored["duration_max_us"]) == (1_500, 9_000)


def test_what_lies_outside_of_its_segment_survives_compaction(store):
    told_too_short = replace(
        segment(2, [5.0] * 20), duration_ms=1_000, events=[Event(3_600_000, "epoch", {})]
    )
    history = store_segments(store, [told_too_short])
    after = compacted(store, history)
    for each in (history, after):
        frame = frame_of(store, each, 3_700)
        assert frame.samples[CPU].count() == 10
        assert len(frame.steps) == 2
        assert frame.events["time_seconds"].tolist() == [3_620.0]


def test_a_segment_knows_the_hours_that_it_touches(store):
    history = store_segments(store, [segment(i, [1.0] * 20) for i in range(4)])
    hours = [len(ref.hours_ms) for ref in history.segments]
    assert hours == [1, 1, 2, 1]
    assert SEGMENT_MS == 10_000
