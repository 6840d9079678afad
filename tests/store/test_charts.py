"""Charts say what the raw samples and steps say, whatever they are read from."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trimtab.wire import Block, StepBlock, StepSummary

from advisor.store.compaction import hours_between, merge, summarise
from advisor.store.index import CHART_KINDS, HOUR_MS, from_ms
from advisor.store.series import read_series
from advisor.store.step_series import DATA_WAIT, STEP, read_steps
from tests.store.runs import CPU, START, assert_same, compacted, frame_of, of_blocks, store_segments
from tests.store.test_series import Counting

MINUTE_MS = 60_000


@st.composite
def runs(draw):
    """Draw segments of some hours, minutes apart: a gauge, single steps and summed ones of two
    ranks.
    """
    minutes = draw(st.lists(st.integers(0, 9 * 60), min_size=1, max_size=12, unique=True))
    return [_segment(draw, seq, minute) for seq, minute in enumerate(sorted(minutes))]


def _segment(draw, seq, minute):
    values = draw(st.lists(st.one_of(st.none(), st.integers(0, 100)), min_size=20, max_size=20))
    waits = draw(st.lists(st.one_of(st.none(), st.integers(0, 900)), min_size=2, max_size=2))
    lasted = draw(st.lists(st.integers(1, 10**6), min_size=2, max_size=2))
    low, high = draw(st.integers(1, 1000)), draw(st.integers(1001, 5000))
    steps = StepBlock(0, "train", [10, 5_000_000], lasted, waits, [32, 32])
    summed = StepSummary(1, "train", 2000, 7, 7 * (low + high) // 2, low, high, 70, 224)
    made = of_blocks(seq, [Block([i * 500 for i in range(20)], {CPU: values})])
    return replace(
        made, start_ms=minute * MINUTE_MS, steps=[steps], step_summaries=[summed, _epoch()]
    )


def _epoch():
    return StepSummary(0, "evaluate", 3000, 1, 9 * 10**8, 9 * 10**8, 9 * 10**8, None, None)


@st.composite
def windows(draw):
    first = draw(st.integers(0, 8 * 3600))
    return first, first + draw(st.integers(1, 9 * 3600)), draw(st.integers(1, 60))


def stored(store, history, how):
    """Return the same node as newer or older objects."""
    if how == "segments":
        return history
    hours = sorted({ms for ref in history.segments for ms in ref.hours_ms})
    if how == "tails":
        tails = [merge(store, history, from_ms(ms), "runs/1") for ms in hours]
        return replace(history, segments=(), chunks=tuple(t for t in tails if t))
    cold = compacted(store, history)
    if how == "hours":
        return cold
    if how == "hours without step tiers":
        old = tuple(ref for ref in cold.chunks if ref.kind != "steps" or not ref.tier_seconds)
        return replace(cold, chunks=old)
    made = []
    for tier in (60, 600, 3600):
        known = replace(cold, chunks=(*cold.chunks, *made))
        made += summarise(store, known, hours_between(hours[0], hours[-1]), tier, "runs/1")
    late = history.segments[-1:] if how == "many hours and a late segment" else ()
    return replace(cold, chunks=(*cold.chunks, *made), segments=late)


HOW = [
    "segments",
    "tails",
    "hours",
    "hours without step tiers",
    "many hours",
    "many hours and a late segment",
]


@pytest.mark.parametrize("how", HOW)
@settings(max_examples=6, deadline=None)
@given(parts=runs(), window=windows())
def test_a_chart_shows_the_least_mean_greatest_and_number_of_what_lies_in_each_bucket(
    store, how, parts, window
):
    first, last, most = window
    start, end = START + timedelta(seconds=first), START + timedelta(seconds=last)
    node = stored(store, store_segments(store, parts), how)
    drawn = read_series(store, [node], [CPU], start, end, most, is_aligned=True)
    drawn += read_steps(store, [node], [STEP, DATA_WAIT], start, end, most, is_aligned=True)
    samples, steps, waits = _points(parts)
    by_name = {view.series: view for view in drawn}
    for name, points in ((CPU, samples), (STEP, steps), (DATA_WAIT, waits)):
        if name in by_name:
            assert len(by_name[name].mean) <= most
            _assert_shows(by_name[name], start, points)
        else:
            assert not any(first * 1000 <= at < last * 1000 for at, *_ in points)


def test_steps_that_are_known_as_sums_of_each_second_leave_no_gap(store):
    """The chart may be fine: on a wide screen a bucket is a fifth of a second."""
    summed = [
        StepSummary(
            0, "train", 1000 * second + 3 * second % 7, 60, 960_000, 15_000, 19_000, 3000, 60
        )
        for second in range(60)
    ]
    segment = of_blocks(0, [Block([0], {CPU: [1]})])
    minute = replace(segment, duration_ms=MINUTE_MS, step_summaries=summed)
    node = store_segments(store, [minute])
    end = START + timedelta(minutes=1)
    for most in (30, 60, 240, 300):
        (view,) = read_steps(store, [node], [STEP], START, end, most, is_aligned=True)
        assert view.count.sum() == 3600
        assert (view.count > 0).all(), f"{most} buckets have gaps"


def _points(parts):
    """Return (milliseconds since START, least, sum, greatest, number) of samples, steps and
    waits.
    """
    samples, steps, waits = [], [], []
    for part in parts:
        values = zip(part.blocks[0].times_ms, part.blocks[0].columns[CPU], strict=True)
        samples += [(part.start_ms + at, v, v, v, 1) for at, v in values if v is not None]
        for block in part.steps:
            for us, took, wait in zip(
                block.start_us, block.duration_us, block.data_wait_us, strict=True
            ):
                at, took_s = part.start_ms + us // 1000, took / 1e6
                steps.append((at, took_s, took_s, took_s, 1))
                waits += [(at, wait / 1e6, wait / 1e6, wait / 1e6, 1)] if wait is not None else []
        each = part.step_summaries[0]
        at = part.start_ms + each.start_ms
        low, high = each.duration_min_us / 1e6, each.duration_max_us / 1e6
        steps.append((at, low, each.duration_sum_us / 1e6, high, each.count))
        waits.append((at, 10 / 1e6, 70 / 1e6, 10 / 1e6, each.count))
    return samples, steps, waits


def _assert_shows(view, start, points):
    start_ms = round((start - START).total_seconds() * 1000)
    for place, since in enumerate(view.t_seconds):
        low = round(start_ms + since * 1000, 6)
        high = round(low + view.width_seconds * 1000, 6)
        own = [p for p in points if low <= p[0] < high]
        assert view.count[place] == sum(p[4] for p in own)
        if own:
            assert view.minimum[place] == pytest.approx(min(p[1] for p in own))
            assert view.maximum[place] == pytest.approx(max(p[3] for p in own))
            assert view.mean[place] == pytest.approx(
                sum(p[2] for p in own) / sum(p[4] for p in own)
            )


@settings(max_examples=10, deadline=None)
@given(parts=runs())
def test_tails_hold_what_their_segments_say(store, parts):
    history = store_segments(store, parts)
    tails = stored(store, history, "tails")
    for each in (tails, compacted(store, tails, _hours(tails))):
        assert not each.segments
        assert_same(frame_of(store, each, 36_000, 10.0), frame_of(store, history, 36_000, 10.0))


def _hours(node):
    return [
        datetime.fromtimestamp(ms / 1000, UTC) for ms in sorted({r.hour_ms for r in node.chunks})
    ]


def test_a_segment_beside_its_tail_counts_once(store):
    history = store_segments(store, [of_blocks(i, [Block([0], {CPU: [i]})]) for i in range(3)])
    tails = stored(store, history, "tails")
    both = replace(tails, segments=history.segments)
    assert_same(frame_of(store, both, 30), frame_of(store, history, 30))


@pytest.mark.parametrize("body", [b"", b"trimtab tail 1\n", "cut", "changed"])
def test_a_damaged_tail_is_named(store, body):
    history = store_segments(store, [of_blocks(0, [Block([0, 500], {CPU: [1, 2]})])])
    node = stored(store, history, "tails")
    (ref,) = node.chunks
    whole = store.get(ref.key)
    broken = {"cut": whole[:-9], "changed": whole[:-9] + b"x" + whole[-8:]}
    store.put(ref.key, broken.get(body, body))
    assert read_series(store, [node], [CPU], START, START + timedelta(seconds=9), 2) == []
    with pytest.raises(Exception, match=ref.key):
        merge(store, node, from_ms(ref.hour_ms), "runs/1")
    store.put(ref.key, whole)


@pytest.mark.parametrize("hours", [8, 24 * 7])
def test_a_chart_opens_few_objects_however_long_the_run(store, hours):
    parts = [
        replace(of_blocks(i, [Block([0, 500], {CPU: [i, i + 1]})]), start_ms=i * HOUR_MS)
        for i in range(hours)
    ]
    cold = compacted(store, store_segments(store, parts))
    ms = sorted({ref.hour_ms for ref in cold.chunks})
    made = []
    for tier, size in ((60, 24), (600, 24 * 7)):
        for low in range(0, len(ms) - 3, size):
            own = ms[low : low + size]
            known = replace(cold, chunks=(*cold.chunks, *made))
            made += summarise(store, known, hours_between(own[0], own[-1]), tier, "runs/1")
    node = replace(cold, chunks=(*cold.chunks, *made))
    assert all(ref.kind in CHART_KINDS for ref in made)
    counting, end = Counting(store), START + timedelta(hours=hours)
    (view,) = read_series(counting, [node], [CPU], START, end, 400, is_aligned=True)
    assert len(counting.keys) <= 10
    assert int(np.sum(view.count)) == 2 * hours
