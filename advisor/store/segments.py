"""Hot segments, as uploaded, on absolute time."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from statistics import median_low
from typing import Any

import numpy as np
from trimtab.wire import Block, Segment, StepBlock, StepSummary, decode_segment
from trimtab.wire.segment import Number

from advisor.store.index import HOUR_MS, SegmentRef, to_us
from advisor.store.rows import GAP_FACTOR
from advisor.store.ticks import Session, Ticks, column, in_order, merged


@dataclass(frozen=True)
class TimedBlock:
    """A block of the wire with Unix milliseconds."""

    cadence_ms: int
    times_ms: list[int]
    columns: dict[str, list[Number]]


@dataclass(frozen=True)
class HotSegment:
    """The content of one segment. Steps and events are rows of the schemas in `tables`."""

    session: Session
    seq: int
    blocks: list[TimedBlock]
    steps: list[tuple[Any, ...]]
    events: list[tuple[Any, ...]]


def read_segment(ref: SegmentRef, body: bytes) -> HotSegment:
    """
    Raises:
        trimtab.wire.WireError: the body is not a segment.
    """
    segment = decode_segment(body)
    return HotSegment(
        session=Session(to_us(ref.session_started_at), ref.session_id),
        seq=ref.seq,
        blocks=[_timed(block, segment, ref.start_us // 1000) for block in segment.blocks],
        steps=list(_steps(ref, segment)),
        events=list(_events(ref, segment)),
    )


def within_hour(segment: HotSegment, ref: SegmentRef, hour_ms: int) -> HotSegment:
    """The part that belongs to one of the segment's hours.

    Samples outside of all hours (an agent sent a wrong duration) belong to the nearest hour, so
    that compacting the segment's hours keeps all of them.
    """
    hours = ref.hours_ms
    if len(hours) == 1:
        return segment

    def belongs(time_ms: int) -> bool:
        return min(max(time_ms // HOUR_MS * HOUR_MS, hours[0]), hours[-1]) == hour_ms

    return HotSegment(
        segment.session,
        segment.seq,
        blocks=[_picked(b, [belongs(t) for t in b.times_ms]) for b in segment.blocks],
        steps=[row for row in segment.steps if belongs(row[0] // 1000)],
        events=[row for row in segment.events if belongs(row[0])],
    )


def ticks_of(segments: Iterable[HotSegment]) -> list[Ticks]:
    """The samples of many segments; blocks of one shape are joined before they are converted."""
    groups: dict[Any, list[TimedBlock]] = defaultdict(list)
    for segment in segments:
        for block in segment.blocks:
            groups[segment.session, block.cadence_ms, tuple(block.columns)].append(block)
    return merged(
        _joined(session, cadence, names, blocks)
        for (session, cadence, names), blocks in groups.items()
    )


def _timed(block: Block, segment: Segment, start_ms: int) -> TimedBlock:
    times = [start_ms + offset for offset in block.times_ms]
    return TimedBlock(_cadence_ms(block, segment), times, block.columns)


def _cadence_ms(block: Block, segment: Segment) -> int:
    """The intended time between two ticks of a block, as a multiple of the segment's resolution.

    A thinned block is one tick that summarises its segment; so is a slow series' only tick.
    """
    step = segment.resolution_ms
    if len(block.times_ms) > 1:
        pairs = zip(block.times_ms, block.times_ms[1:], strict=False)
        return max(round(median_low(b - a for a, b in pairs) / step), 1) * step
    is_thinned = any(":" in name for name in block.columns)
    is_slow = segment.duration_ms > GAP_FACTOR * step
    return segment.duration_ms if (is_thinned or is_slow) and segment.duration_ms else step


def _picked(block: TimedBlock, chosen: list[bool]) -> TimedBlock:
    def pick(values: list[Any]) -> list[Any]:
        return [value for value, is_chosen in zip(values, chosen, strict=True) if is_chosen]

    columns = {name: pick(values) for name, values in block.columns.items()}
    return TimedBlock(block.cadence_ms, pick(block.times_ms), columns)


def _joined(
    session: Session, cadence_ms: int, names: tuple[str, ...], blocks: list[TimedBlock]
) -> Ticks:
    times = np.fromiter(chain.from_iterable(block.times_ms for block in blocks), dtype="int64")
    columns = {
        name: column(list(chain.from_iterable(block.columns[name] for block in blocks)))
        for name in names
    }
    return in_order(session, cadence_ms, times, columns)


def _steps(ref: SegmentRef, segment: Segment) -> Iterable[tuple[Any, ...]]:
    for block in segment.steps:
        yield from _single_steps(ref, block)
    for summary in segment.step_summaries:
        if summary.count:
            yield _summary(ref, summary)


def _single_steps(ref: SegmentRef, block: StepBlock) -> Iterable[tuple[Any, ...]]:
    columns = (block.start_us, block.duration_us, block.data_wait_us, block.samples)
    for start, duration, wait, samples in zip(*columns, strict=True):
        at_us = ref.start_us + start
        row = (at_us, ref.session_id, ref.seq, block.rank, block.phase)
        yield (*row, 1, duration, wait, samples, None, None, None, None)


def _summary(ref: SegmentRef, summary: StepSummary) -> tuple[Any, ...]:
    return (
        ref.start_us + summary.start_ms * 1000,
        ref.session_id,
        ref.seq,
        summary.rank,
        summary.phase,
        summary.count,
        summary.duration_sum_us,
        summary.data_wait_sum_us,
        summary.samples,
        summary.duration_min_us,
        summary.duration_max_us,
        sorted(summary.histogram.items()),
        summary.slowest_us,
    )


def _events(ref: SegmentRef, segment: Segment) -> Iterable[tuple[Any, ...]]:
    for event in segment.events:
        data = json.dumps(event.data, sort_keys=True)
        yield (ref.start_us // 1000 + event.time_ms, ref.session_id, ref.seq, event.kind, data)
