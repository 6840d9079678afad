"""The same samples, steps and events, whatever the order, delay or compaction."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.runs import (
    CPU,
    START,
    assert_same,
    compacted,
    frame_of,
    hours_of,
    joined,
    segment,
    store_segments,
)

percentages = st.one_of(st.none(), st.floats(0, 100).map(lambda v: round(v, 1)), st.just(50))
contents = st.lists(st.lists(percentages, min_size=20, max_size=20), min_size=1, max_size=6)


@settings(max_examples=20, deadline=None)
@given(contents=contents, data=st.data(), resolution=st.sampled_from([0.25, 1.0, 20.0, 120.0]))
def test_it_reads_the_same_in_any_order_before_and_after_compaction(
    store, contents, data, resolution
):
    history = store_segments(store, [segment(i, values) for i, values in enumerate(contents)])
    seconds = 10 * len(contents)
    expected = frame_of(store, history, seconds, resolution)
    shuffled = replace(history, segments=tuple(data.draw(st.permutations(history.segments))))
    assert_same(frame_of(store, shuffled, seconds, resolution), expected)
    order = data.draw(st.permutations(hours_of(history)))
    assert_same(frame_of(store, compacted(store, history, order), seconds, resolution), expected)


@settings(max_examples=15, deadline=None)
@given(contents=contents, late=st.integers(0, 5), resolution=st.sampled_from([1.0, 20.0]))
def test_it_takes_a_late_segment_into_hours_that_are_compacted(store, contents, late, resolution):
    history = store_segments(store, [segment(i, values) for i, values in enumerate(contents)])
    seconds = 10 * len(contents)
    expected = frame_of(store, history, seconds, resolution)
    late_ref = history.segments[late % len(contents)]
    rest = tuple(ref for ref in history.segments if ref != late_ref)
    waiting = replace(compacted(store, replace(history, segments=rest)), segments=(late_ref,))
    assert_same(frame_of(store, waiting, seconds, resolution), expected)
    twice = compacted(store, waiting)
    assert_same(frame_of(store, twice, seconds, resolution), expected)
    assert {ref.key for ref in twice.chunks} == {
        ref.key for ref in compacted(store, history).chunks
    }


@settings(max_examples=15, deadline=None)
@given(
    contents=st.lists(st.lists(percentages, min_size=20, max_size=20), min_size=2, max_size=4),
    shift_ms=st.integers(-25_000, 25_000),
    data=st.data(),
)
def test_sessions_that_overlap_read_the_same_before_and_after_compaction(
    store, contents, shift_ms, data
):
    first = store_segments(store, [segment(i, values) for i, values in enumerate(contents)])
    second = store_segments(
        store,
        [segment(i, values, UUID(int=8)) for i, values in enumerate(contents)],
        START + timedelta(milliseconds=shift_ms),
    )
    history = joined(first, second)
    expected = frame_of(store, history, 60)
    shuffled = replace(history, segments=tuple(data.draw(st.permutations(history.segments))))
    assert_same(frame_of(store, shuffled, 60), expected)
    assert_same(frame_of(store, compacted(store, history), 60), expected)
    # One after the other, in two compactions:
    half = replace(compacted(store, first), segments=second.segments)
    assert_same(frame_of(store, compacted(store, half), 60), expected)


def test_of_two_sessions_at_once_the_one_that_began_first_is_heard(store):
    ours = store_segments(store, [segment(i, [10.0] * 20) for i in range(2)])
    theirs = store_segments(
        store,
        [segment(i, [90.0] * 20, UUID(int=8)) for i in range(4)],
        START + timedelta(milliseconds=130),
    )
    cpu = frame_of(store, joined(theirs, ours), 40).samples[CPU].tolist()
    assert cpu[:20] == [10.0] * 20
    assert cpu[21:] == [90.0] * 19


def test_a_segment_listed_twice_or_beside_its_own_chunk_counts_once(store):
    history = store_segments(store, [segment(i, [10.0, 30.0] * 10) for i in range(4)])
    replayed = replace(history, segments=history.segments * 2)
    # What a reader sees that lists segments before, and chunks after, a compaction swaps them.
    beside = replace(compacted(store, history), segments=history.segments)
    for resolution in (1.0, 20.0):
        expected = frame_of(store, history, 40, resolution)
        for each in (replayed, beside):
            assert_same(frame_of(store, each, 40, resolution), expected)
    assert [ref.key for ref in compacted(store, beside).chunks] == [
        ref.key for ref in compacted(store, history).chunks
    ]
