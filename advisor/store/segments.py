"""Hot segments, as uploaded, on absolute time."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, repeat
from statistics import median_low
from typing import Any

import numpy as np
import pyarrow as pa
from trimtab.wire import Block, Segment, StepBlock, StepSummary
from trimtab.wire.segment import Number

from advisor.store import segment_bodies, tables
from advisor.store.index import HOUR_MS, SegmentRef, to_us
from advisor.store.rows import GAP_FACTOR
from advisor.store.ticks import SessionKey, Ticks, column, merge_ticks, sort_ticks
from advisor.store.wanted import Wanted, columns_among

MANY_STEPS = 2_000
"""The steps of a segment above which they are a table: agents send at most 500 of each rank."""


@dataclass(frozen=True)
class TimedBlock:
    """A block of the wire with Unix milliseconds."""

    cadence_ms: int
    times_ms: list[int]
    columns: dict[str, list[Number]]


@dataclass(frozen=True)
class HotSegment:
    """The content of one segment; steps and events as rows of the schemas in `tables`.

    Where memory counts, samples are in `ticks` instead of `blocks`, and steps in `step_tables`
    instead of `steps`: a quarter of the size.
    """

    session: SessionKey
    seq: int
    blocks: list[TimedBlock]
    ticks: list[Ticks]
    steps: list[tuple[Any, ...]]
    step_tables: list[pa.Table]
    events: list[tuple[Any, ...]]

    @property
    def step_count(self) -> int:
        return len(self.steps) + sum(len(table) for table in self.step_tables)

    @property
    def has_samples(self) -> bool:
        return any(block.times_ms for block in self.blocks) or bool(self.ticks)


def read_segment(ref: SegmentRef, body: bytes, is_compact: bool = False) -> HotSegment:
    """Decode a segment.

    Args:
        is_compact: for many samples. For many small segments it takes longer.

    Raises:
        trimtab.wire.WireError: the body is not a segment.
    """
    segment = segment_bodies.decode_body(body)
    session = SessionKey(to_us(ref.session_started_at), ref.session_id)
    steps = list(_steps(ref, segment))
    many_steps = len(steps) > MANY_STEPS
    blocks = [_timed(block, segment, ref.start_us // 1000) for block in segment.blocks]
    return HotSegment(
        session=session,
        seq=ref.seq,
        blocks=[] if is_compact else blocks,
        ticks=[_joined(session, b.cadence_ms, tuple(b.columns), [b]) for b in blocks]
        if is_compact
        else [],
        steps=[] if many_steps else steps,
        step_tables=[tables.table_from_rows([steps], tables.STEP_SCHEMA)] if many_steps else [],
        events=list(_events(ref, segment)),
    )


def cut_to_hour(segment: HotSegment, ref: SegmentRef, hour_ms: int) -> HotSegment:
    """Return the part that belongs to one of the segment's hours.

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
        ticks=[
            t.pick(np.array([belongs(at) for at in t.times_ms.tolist()])) for t in segment.ticks
        ],
        steps=[row for row in segment.steps if belongs(row[0] // 1000)],
        step_tables=[
            table.filter(pa.array([belongs(us // 1000) for us in table["start_us"].to_pylist()]))
            for table in segment.step_tables
        ],
        events=[row for row in segment.events if belongs(row[0])],
    )


def ticks_of(segments: Iterable[HotSegment], wanted: Wanted = None) -> list[Ticks]:
    """Return the samples of the wanted series of many segments; blocks of one shape are joined
    before they are converted.
    """
    groups: dict[Any, list[TimedBlock]] = defaultdict(list)
    ready: list[Ticks] = []
    for segment in segments:
        ready += (_only(ticks, wanted) for ticks in segment.ticks)
        for block in segment.blocks:
            names = _columns_of(block, wanted)
            groups[segment.session, block.cadence_ms, names].append(block)
    joined = (
        _joined(session, cadence, names, blocks)
        for (session, cadence, names), blocks in groups.items()
    )
    return merge_ticks([*ready, *joined])


def _columns_of(block: TimedBlock, wanted: Wanted) -> tuple[str, ...]:
    """Return the columns of the wanted series. One without a known value isn't there, as in a
    chunk.
    """
    if wanted is None:
        return tuple(block.columns)
    known = (n for n, values in block.columns.items() if any(v is not None for v in values))
    needed = columns_among(known, wanted)
    return tuple(name for name in block.columns if name in needed)


def _only(ticks: Ticks, wanted: Wanted) -> Ticks:
    if wanted is None:
        return ticks
    known = (name for name, column in ticks.columns.items() if column.known.any())
    needed = columns_among(known, wanted)
    columns = {name: column for name, column in ticks.columns.items() if name in needed}
    return Ticks(ticks.session, ticks.cadence_ms, ticks.times_ms, columns)


def _timed(block: Block, segment: Segment, start_ms: int) -> TimedBlock:
    times = [start_ms + offset for offset in block.times_ms]
    return TimedBlock(_cadence_ms(block, segment), times, block.columns)


def _cadence_ms(block: Block, segment: Segment) -> int:
    """Return the intended time between two ticks of a block, as a multiple of the segment's
    resolution.

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
    session: SessionKey, cadence_ms: int, names: tuple[str, ...], blocks: list[TimedBlock]
) -> Ticks:
    times = np.fromiter(chain.from_iterable(block.times_ms for block in blocks), dtype="int64")
    columns = {
        name: column(list(chain.from_iterable(block.columns[name] for block in blocks)))
        for name in names
    }
    return sort_ticks(session, cadence_ms, times, columns)


def _steps(ref: SegmentRef, segment: Segment) -> Iterable[tuple[Any, ...]]:
    for block in segment.steps:
        yield from _single_steps(ref, block)
    for summary in segment.step_summaries:
        yield _summary(ref, summary)


def _single_steps(ref: SegmentRef, block: StepBlock) -> Iterable[tuple[Any, ...]]:
    known = block.tokens or repeat(None, len(block.start_us))
    columns = (block.start_us, block.duration_us, block.data_wait_us, block.samples, known)
    for start, duration, wait, samples, tokens in zip(*columns, strict=True):
        at_us = ref.start_us + start
        row = (at_us, ref.session_id, ref.seq, block.rank, block.phase)
        yield (*row, 1, duration, wait, samples, None, None, None, None, tokens)


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
        summary.tokens,
    )


def _events(ref: SegmentRef, segment: Segment) -> Iterable[tuple[Any, ...]]:
    for event in segment.events:
        data = json.dumps(event.data, sort_keys=True)
        yield (ref.start_us // 1000 + event.time_ms, ref.session_id, ref.seq, event.kind, data)
