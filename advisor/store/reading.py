"""Reads a node's data hour by hour, merging hot segments and chunks."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

import pyarrow as pa
from pyarrow import ArrowException
from trimtab.wire import WireError

from advisor.store import chunks, segments, tables, ticks
from advisor.store.chunks import ChunkError, Members
from advisor.store.histogram import rolled_up
from advisor.store.index import (
    HOUR_KINDS,
    HOUR_MS,
    STEP_TIER_SECONDS,
    TIERS_SECONDS,
    ChunkRef,
    NodeHistory,
    SegmentRef,
    to_ms,
)
from advisor.store.objects import ObjectMissingError, ObjectReader
from advisor.store.room import MANY_SAMPLES, Room
from advisor.store.rows import Rows, join_rows
from advisor.store.segments import HotSegment
from advisor.store.session_series import series_names, series_rows
from advisor.store.tails import Tail, decode_tail
from advisor.store.ticks import Ticks
from advisor.store.wanted import Wanted, select_wanted

Found = TypeVar("Found")
logger = logging.getLogger(__name__)
_BROKEN = (ObjectMissingError, WireError, ArrowException, ChunkError, OSError)


@dataclass(frozen=True)
class UncompactedParts:
    """The parts of an hour that are not compacted yet: tails, and segments that are in no tail."""

    tails: list[Tail]
    segments: list[HotSegment]

    def __bool__(self) -> bool:
        return bool(self.tails or self.segments)

    def ticks(self, wanted: Wanted) -> list[Ticks]:
        merged = [ticks for tail in self.tails for ticks in tail.ticks(wanted)]
        return [*merged, *segments.ticks_of(self.segments, wanted)]

    def members(self, has_part: Callable[[HotSegment], object]) -> Members:
        """Return the tails' segments, and those with the part that is asked for."""
        members = Members()
        for tail in self.tails:
            members.update(tail.members)
        members.add_all(segment for segment in self.segments if has_part(segment))
        return members


class NodeReader:
    """One node's objects. Missing or broken ones are listed in `unreadable`, never taken as zero.

    Request hours in rising order: a segment stays decoded only while its hours are requested.

    Args:
        for_charts: rows of a tier come without histograms, which is faster, and what was decoded is
            kept: the same hours are asked for their samples and for their steps.
    """

    def __init__(
        self,
        store: ObjectReader,
        node: NodeHistory,
        room: Room | None = None,
        for_charts: bool = False,
    ) -> None:
        self.unreadable: list[str] = []
        self._store = store
        self._room = room or Room()
        self._for_charts = for_charts
        self._segments: dict[int, list[SegmentRef]] = defaultdict(list)
        self._chunks: dict[int, list[ChunkRef]] = defaultdict(list)
        self._decoded: dict[SegmentRef, HotSegment | None] = {}
        self._tails: dict[ChunkRef, Tail | None] = {}
        for ref in {(ref.session_id, ref.seq): ref for ref in node.segments}.values():
            for hour_ms in ref.hours_ms:
                self._segments[hour_ms].append(ref)
        for chunk in sorted(set(node.chunks), key=lambda ref: ref.key):
            if chunk.kind in HOUR_KINDS:
                self._chunks[chunk.hour_ms].append(chunk)

    def hours(self, start: datetime, end: datetime) -> list[int]:
        """Return the hours within [start, end] that have stored data, in order."""
        low, high = to_ms(start) // HOUR_MS * HOUR_MS, to_ms(end)
        return sorted(h for h in {*self._segments, *self._chunks} if low <= h <= high)

    def read_compacted(self, hour_ms: int) -> list[str]:
        """Return the objects with the samples of an hour that is compacted; none if it isn't, or
        has no samples.
        """
        refs = self._chunks.get(hour_ms, ())
        if self._segments.get(hour_ms) or any(ref.kind == "tail" for ref in refs):
            return []
        return [ref.key for ref in refs if ref.kind == "samples"]

    def newest_series(self, start: datetime, end: datetime) -> set[str]:
        """Return the series of the newest hour between two times that a chunk or tail has; none if
        unknown. Only headers are read.
        """
        for hour_ms in reversed(self.hours(start, end)):
            raw, tails = (self._refs(hour_ms, kind, 0) for kind in ("samples", "tail"))
            found = [self.chunk_series(ref) for ref in raw]
            if not found:
                found = [tail.series() for ref in tails if (tail := self._tail(ref))]
            if found:
                return set().union(*found)
        return set()

    def rows(self, hour_ms: int, wanted: Wanted, tier_seconds: int) -> Iterator[tuple[str, Rows]]:
        """Return every wanted series that the hour has: single samples (tier 0) or a tier.

        One after the other: rows take five times the memory of the samples behind them. The tier's
        own chunk is read alone while no segment waits beside it; else the tier is made of all raw
        samples of the hour, which gives the same rows.

        Raises:
            TooLargeError: the hour has more than fits into memory.
        """
        if tier_seconds:
            stored, members = self._tier(hour_ms, tier_seconds, wanted)
            if stored is not None and not self.waiting(hour_ms, members):
                return iter(stored.items())
            made = self._made_of(hour_ms, wanted, stored, members)
            keeps = not self._for_charts
            return ((name, rolled_up(rows, tier_seconds, name, keeps)) for name, rows in made)
        if not self._refs(hour_ms, "samples", 0):
            finest = min((t for t in TIERS_SECONDS if self._refs(hour_ms, "samples", t)), default=0)
            stored, members = self._tier(hour_ms, finest, wanted) if finest else (None, Members())
            return self._made_of(hour_ms, wanted, stored, members)
        return _series(self.ticks(hour_ms, wanted)[0], wanted)

    def ticks(self, hour_ms: int, wanted: Wanted) -> tuple[list[Ticks], Members]:
        """Return the raw samples of an hour, and the segments they came in."""
        stored, members = self._stored_ticks(hour_ms, wanted)
        waiting = self.waiting(hour_ms, members)
        members.update(waiting.members(lambda segment: segment.has_samples))
        return ticks.merge_ticks([*stored, *waiting.ticks(wanted)]), members

    def steps(
        self, hour_ms: int, columns: Collection[str] | None = None
    ) -> tuple[pa.Table, Members]:
        """Return the steps of an hour, and the segments they came in. Raises TooLargeError.

        Args:
            columns: those of interest; others may be missing. None: all.
        """
        stored, members = self._stored_tables(hour_ms, "steps", columns)
        waiting = self.waiting(hour_ms, members)
        members.update(waiting.members(lambda segment: segment.step_count))
        parts = [tail.steps() for tail in waiting.tails]
        parts += [table for hot in waiting.segments for table in hot.step_tables]
        parts.append(
            tables.table_from_rows((hot.steps for hot in waiting.segments), tables.STEP_SCHEMA)
        )
        return tables.merge_tables([*stored, *parts], tables.STEP_SCHEMA, columns), members

    def events(self, hour_ms: int) -> tuple[pa.Table, Members]:
        stored, members = self._stored_tables(hour_ms, "events", None)
        waiting = self.waiting(hour_ms, members)
        members.update(waiting.members(lambda segment: segment.events))
        parts = [tail.events() for tail in waiting.tails]
        parts.append(
            tables.table_from_rows((hot.events for hot in waiting.segments), tables.EVENT_SCHEMA)
        )
        return tables.merge_tables([*stored, *parts], tables.EVENT_SCHEMA), members

    def step_tier(self, hour_ms: int) -> pa.Table | None:
        """Return the hour's tier of steps; None if it has none, or if steps wait beside it."""
        for ref in self._refs(hour_ms, "steps", STEP_TIER_SECONDS):
            decoded = self._read(ref.key, chunks.decode_table)
            if decoded and not self.waiting(hour_ms, decoded[1]):
                return decoded[0]
        return None

    def tier_members(self, hour_ms: int, tier_seconds: int) -> Members:
        return self._tier(hour_ms, tier_seconds, ())[1]

    def waiting(self, hour_ms: int, members: Members) -> UncompactedParts:
        """Return the hour's tails and parts of hot segments that aren't among these members."""
        self._forget_before(hour_ms)
        read = (self._tail(ref) for ref in self._refs(hour_ms, "tail", 0))
        tails = [tail for tail in read if tail and tail.members.missing_from(members)]
        held = Members()
        for each in (members, *(tail.members for tail in tails)):
            held.update(each)
        refs = sorted(self._segments.get(hour_ms, ()), key=lambda ref: (ref.session_id, ref.seq))
        waiting = [ref for ref in refs if not held.holds(ref)]
        samples = sum(ref.sample_count for ref in waiting)
        samples += sum(tail.sample_count for tail in tails)
        steps = sum(tail.step_count for tail in tails)
        events = sum(tail.event_count for tail in tails)
        self._room.check_hour(samples, steps, events)
        found: list[HotSegment] = []
        for ref in waiting:
            hot = self._hot(ref, samples > MANY_SAMPLES)
            if hot is not None:
                found.append(segments.cut_to_hour(hot, ref, hour_ms))
                steps, events = steps + hot.step_count, events + len(hot.events)
                self._room.check_hour(samples, steps, events)
        return UncompactedParts(tails, found)

    def segment(self, ref: SegmentRef, is_compact: bool = False) -> HotSegment | None:
        return self._read(ref.key, lambda body: segments.read_segment(ref, body, is_compact))

    def chunk_series(self, ref: ChunkRef) -> set[str]:
        return self._read(ref.key, chunks.series_of) or set()

    def tail_series(self) -> set[str]:
        refs = [ref for refs in self._chunks.values() for ref in refs if ref.kind == "tail"]
        return {name for ref in refs if (tail := self._tail(ref)) for name in tail.series()}

    def chart_rows(self, ref: ChunkRef, wanted: Wanted) -> dict[str, Rows]:
        """Return the rows of a chunk of many hours."""
        decoded = self._read(ref.key, lambda body: chunks.decode_tier(body, wanted, False))
        return decoded[0] if decoded else {}

    def chart_steps(self, ref: ChunkRef) -> pa.Table | None:
        decoded = self._read(ref.key, chunks.decode_table)
        return decoded[0] if decoded else None

    def _made_of(
        self,
        hour_ms: int,
        wanted: Wanted,
        tier: dict[str, Rows] | None,
        tier_members: Members,
    ) -> Iterator[tuple[str, Rows]]:
        """Yield rows of the raw samples; where those of a tier are no longer kept, its rows
        stay.
        """
        stored, raw_members = self._stored_ticks(hour_ms, wanted)
        if tier is None or not tier_members.missing_from(raw_members):
            hot = self.waiting(hour_ms, raw_members).ticks(wanted)
            return _series(ticks.merge_ticks([*stored, *hot]), wanted)
        waiting = self.waiting(hour_ms, tier_members).ticks(wanted)
        late = dict(_series(ticks.merge_ticks(waiting), wanted))
        every = sorted({*tier, *late})
        return ((n, join_rows(part[n] for part in (tier, late) if n in part)) for n in every)

    def _stored_ticks(self, hour_ms: int, wanted: Wanted) -> tuple[list[Ticks], Members]:
        stored: list[Ticks] = []
        members = Members()
        for ref in self._refs(hour_ms, "samples", 0):
            decoded = self._read(ref.key, lambda body: chunks.decode_ticks(body, wanted))
            stored += decoded[0] if decoded else []
            members.update(decoded[1] if decoded else Members())
        return stored, members

    def _tier(
        self, hour_ms: int, tier_seconds: int, wanted: Wanted
    ) -> tuple[dict[str, Rows] | None, Members]:
        keeps = not self._for_charts
        for ref in self._refs(hour_ms, "samples", tier_seconds):
            decoded = self._read(ref.key, lambda body: chunks.decode_tier(body, wanted, keeps))
            if decoded:
                return decoded
        return None, Members()

    def _stored_tables(
        self, hour_ms: int, kind: str, columns: Collection[str] | None
    ) -> tuple[list[pa.Table], Members]:
        parts, members = [], Members()
        for ref in self._refs(hour_ms, kind, 0):
            decoded = self._read(ref.key, lambda body: chunks.decode_table(body, columns))
            if decoded:
                parts.append(decoded[0])
                members.update(decoded[1])
        return parts, members

    def _refs(self, hour_ms: int, kind: str, tier_seconds: int) -> list[ChunkRef]:
        refs = self._chunks.get(hour_ms, ())
        return [ref for ref in refs if (ref.kind, ref.tier_seconds) == (kind, tier_seconds)]

    def _hot(self, ref: SegmentRef, is_compact: bool) -> HotSegment | None:
        if ref not in self._decoded:
            self._decoded[ref] = self.segment(ref, is_compact)
        return self._decoded[ref]

    def _tail(self, ref: ChunkRef) -> Tail | None:
        if ref not in self._tails:
            self._tails[ref] = self._read(ref.key, decode_tail)
        return self._tails[ref]

    def _forget_before(self, hour_ms: int) -> None:
        if self._for_charts:
            return
        kept = {ref: hot for ref, hot in self._decoded.items() if ref.hours_ms[-1] >= hour_ms}
        self._decoded = kept
        self._tails = {ref: t for ref, t in self._tails.items() if ref.hour_ms >= hour_ms}

    def _read(self, key: str, decode: Callable[[bytes], Found]) -> Found | None:
        try:
            return decode(self._store.get(key))
        except _BROKEN as error:
            logger.warning("unreadable object", extra={"key": key, "error": str(error)})
            if key not in self.unreadable:
                self.unreadable.append(key)
            return None


def _series(every: list[Ticks], wanted: Wanted) -> Iterator[tuple[str, Rows]]:
    for name in sorted(select_wanted(series_names(every), wanted)):
        if len(rows := series_rows(every, name)):
            yield name, rows
