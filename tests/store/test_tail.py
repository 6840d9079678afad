"""A node's last minutes: the same, however its segments come and whenever a worker began."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trimtab.wire import Block, Event, Segment, StepSummary, encode_segment

from advisor.store.index import SegmentRef, to_ms
from advisor.store.room import RoomExceededError
from advisor.store.tail import RunTail
from rules.frame import Hardware, NodeFrame
from tests.store.runs import SEGMENT_MS, SESSION, of_blocks, segment

BEGAN = datetime(2026, 3, 1, 11, 59, 33, 250_000, tzinfo=UTC)
CPU, GPU, TREE = "host.cpu_busy_pct", "gpu0.busy_pct", "tree.cpu_seconds_total"
CELL_MS, CELLS = 5_000, 40
COUNT = 12


def gauges(seq: int, known: Sequence[bool] = (True,) * 20) -> Segment:
    """Return every half second a gauge and a counter, where they are known; steps and events."""
    values: list[float | None] = [seq * 20.0 + i if ok else None for i, ok in enumerate(known)]
    made = segment(seq, values)
    counter = [None if value is None else 3 * value for value in values]
    made.blocks[0].columns[TREE] = counter
    made.events.append(Event(3, "phase_begin", {"phase": "evaluate", "rank": 0}))
    return made


def ref(made: Segment) -> SegmentRef:
    return SegmentRef("k", str(SESSION), made.seq, BEGAN, made.start_ms, made.duration_ms)


def start_ms(seconds: float = 0.0) -> int:
    at = to_ms(BEGAN) + round(1000 * seconds)
    return at - at % CELL_MS


def tail_of(segments: Sequence[Segment], since_seconds: float = 0.0) -> RunTail:
    tail = RunTail(CELL_MS, CELLS)
    tail.move_to(start_ms(since_seconds))
    for made in segments:
        tail.add(ref(made), encode_segment(made))
    return tail


def frame(tail: RunTail, until_seconds: float = COUNT * 10.0) -> NodeFrame:
    return tail.node_frame("n", Hardware(), (), to_ms(BEGAN) + round(1000 * until_seconds))


def assert_same(left: NodeFrame, right: NodeFrame) -> None:
    names = sorted(left.samples.columns)
    assert names == sorted(right.samples.columns)
    pd.testing.assert_frame_equal(left.samples[names], right.samples[names])
    pd.testing.assert_frame_equal(left.steps, right.steps)
    pd.testing.assert_frame_equal(left.events, right.events)


some = st.lists(st.booleans(), min_size=20, max_size=20)


@given(st.permutations(range(COUNT)), st.lists(some, min_size=COUNT, max_size=COUNT), st.data())
def test_any_order_and_any_beginning_give_the_same(order, known, data):
    made = [gauges(seq, known[seq]) for seq in range(COUNT)]
    kept = [gauges(seq, (True,) * 20) if not any(known[seq]) else made[seq] for seq in order]
    carried = RunTail(CELL_MS, CELLS)
    carried.move_to(start_ms())
    since = data.draw(st.integers(0, 8), label="seconds / 10")
    for place, each in enumerate(kept):
        if place == COUNT // 2:
            carried.move_to(start_ms(10.0 * since))
        if each.start_ms + each.duration_ms >= 10_000 * since:
            carried.add(ref(each), encode_segment(each))
    reaching = [each for each in kept if each.start_ms + each.duration_ms >= 10_000 * since]
    begun = tail_of(sorted(reaching, key=lambda each: each.seq), 10.0 * since)
    assert_same(frame(carried), frame(begun))


def test_each_cell_has_its_last_sample_and_a_counter_its_last_value():
    made = [gauges(seq) for seq in range(3)]
    samples = frame(tail_of(made), 30).samples
    times = [(to_ms(BEGAN) + 500 * i) for i in range(60)]
    cells = [(at - start_ms()) // CELL_MS for at in times]
    lasts = [max(i for i in range(60) if cells[i] == cell) for cell in sorted(set(cells))]
    assert samples[CPU].tolist() == [float(i) for i in lasts]
    assert samples[TREE].tolist() == [3.0 * i for i in lasts]


def test_a_missing_segment_is_unknown_and_a_slow_series_has_no_holes():
    slow = [of_blocks(seq, [Block([0], {GPU: [seq], TREE: [10 * seq]})]) for seq in (0, 1, 2, 6)]
    samples = frame(tail_of(slow), 70).samples
    known = samples[GPU].notna().to_numpy()
    assert known[:5].all()
    assert not known[5:12].any()
    assert samples[TREE].dropna().is_monotonic_increasing
    assert samples[TREE].iloc[1] == pytest.approx(5.0)


def test_of_what_an_agent_summarised_a_gauge_has_its_mean_and_a_counter_its_value():
    columns = {f"{GPU}:{part}": [value] for part, value in (("min", 1), ("mean", 5), ("max", 9))}
    columns |= {
        f"{TREE}:{part}": [value] for part, value in (("min", 10), ("mean", 15), ("max", 20))
    }
    made = [of_blocks(0, [Block([SEGMENT_MS - 1], columns)])]  # type: ignore[arg-type]
    samples = frame(tail_of(made), 10).samples
    assert samples[GPU].dropna().tolist() == [5.0]
    assert samples[TREE].dropna().tolist() == [20.0]


def test_steps_are_summed_by_the_cells_in_which_they_begin():
    summary = StepSummary(1, "train", 1000, 10, 900_000, 1, 1, None, None)
    made = replace(gauges(0), step_summaries=[summary])
    steps = frame(tail_of([made]), 10).steps
    single, summed = steps[steps["rank"] == 0], steps[steps["rank"] == 1]
    assert single["count"].sum() == 2
    assert (single["duration_seconds"] * single["count"]).sum() == pytest.approx(8.0)
    assert single["samples"].sum() == 64
    assert summed["count"].tolist() == [10]
    assert summed["duration_seconds"].tolist() == [pytest.approx(0.09)]
    assert np.isnan(summed["data_wait_seconds"]).all()


def test_what_a_worker_holds_of_a_segment_that_is_gone_is_noticed():
    tail = tail_of([gauges(seq) for seq in range(3)])
    held = {(str(SESSION), seq) for seq in range(3)}
    assert not tail.has_others(held)
    assert tail.has_others(held - {(str(SESSION), 1)})


def test_a_node_with_more_than_fits_into_memory_is_refused():
    columns = {f"gpu{number}.busy_pct": [1, 2] for number in range(4_000)}
    made = of_blocks(0, [Block([0, 5000], columns)])  # type: ignore[arg-type]
    tail = RunTail(CELL_MS, 1_000)
    tail.move_to(start_ms())
    with pytest.raises(RoomExceededError):
        tail.add(ref(made), encode_segment(made))


@pytest.mark.parametrize("until_seconds", [0.0, -60.0])
def test_a_tail_that_ends_before_it_begins_has_no_samples(until_seconds):
    """A node whose clock is wrong may have sent nothing but the future."""
    node = tail_of([gauges(6)], since_seconds=60.0).node_frame(
        "n", Hardware(), (), start_ms(until_seconds)
    )
    assert len(node.samples) == 0
    assert CPU in node.samples.columns
