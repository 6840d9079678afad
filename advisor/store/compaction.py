"""Compacts a node's hour to one Parquet file, tiers, steps and events; merges its newest segments
to a tail; and makes the chunks of many hours that charts read."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

import pyarrow as pa

from advisor.store import chunks
from advisor.store.chart_plan import Buckets
from advisor.store.chunks import Members
from advisor.store.grid import SampleGrid
from advisor.store.histogram import rolled_up
from advisor.store.index import (
    CHART_TIER_HOURS,
    HOUR_MS,
    STEP_TIER_SECONDS,
    TIERS_SECONDS,
    ChunkKind,
    ChunkRef,
    NodeHistory,
    from_ms,
    to_ms,
)
from advisor.store.objects import ObjectStore
from advisor.store.reading import NodeReader
from advisor.store.series import rows_of
from advisor.store.step_series import cells_between
from advisor.store.step_tiers import TIER_SCHEMA, cells_of, coarsen_tier
from advisor.store.tails import encode_tail

HOUR = timedelta(hours=1)
NOT_DRAWN = ("last", "histogram")
"""Fields of a tier that charts don't show."""


class CompactionError(RuntimeError):
    """An object of the hour can't be read. Compacting without it would lose it permanently."""


def compact(store: ObjectStore, node: NodeHistory, hour: datetime, prefix: str) -> list[ChunkRef]:
    """Merge the node's segments in [hour, hour + 1 h) with that hour's chunks into new chunks.

    The result replaces every chunk of the hour. A segment may be deleted once all its hours
    (`SegmentRef.hours_ms`) are compacted. Deletes nothing: the caller swaps its rows, then deletes.
    Keys contain the content's hash, so repeating it gives the same objects.

    Raises:
        CompactionError: an object of the hour can't be read; names it.
    """
    reader = NodeReader(store, node)
    bodies = _bodies(reader, to_ms(hour))
    _refuse_unreadable(reader)
    place = f"{prefix}/{node.key}/{hour:%Y%m%dT%H}"
    return [
        _put(store, place, (hour, hour + HOUR), kind, tier, body)
        for (kind, tier), body in bodies.items()
    ]


def merge(store: ObjectStore, node: NodeHistory, hour: datetime, prefix: str) -> ChunkRef | None:
    """Merge the node's segments in [hour, hour + 1 h) with its tails of that hour into one tail,
    which replaces them; None: they say nothing of this hour.

    Raises:
        CompactionError: as `compact`.
    """
    tails = tuple(ref for ref in node.chunks if ref.kind == "tail")
    reader, hour_ms = NodeReader(store, replace(node, chunks=tails)), to_ms(hour)
    ticks, members = reader.ticks(hour_ms, None)
    (steps, with_steps), (events, with_events) = reader.steps(hour_ms), reader.events(hour_ms)
    for each in (with_steps, with_events):
        members.update(each)
    _refuse_unreadable(reader)
    if not (ticks or len(steps) or len(events)):
        return None
    body = encode_tail(ticks, steps, events, members)
    place = f"{prefix}/{node.key}/{hour:%Y%m%dT%H}"
    return _put(store, place, (hour, hour + HOUR), "tail", 0, body)


def summarise(
    store: ObjectStore,
    node: NodeHistory,
    hours: tuple[datetime, datetime],
    tier_seconds: int,
    prefix: str,
) -> list[ChunkRef]:
    """Store the chunks of many hours for charts: samples and steps of [first, last), at one tier.

    Raises:
        CompactionError: as `compact`.
    """
    first, last = hours
    cells = round((last - first) / timedelta(seconds=tier_seconds))
    buckets = Buckets(tier_seconds, SampleGrid.even(to_ms(first), tier_seconds * 1000, cells))
    reader = NodeReader(store, node, for_charts=True)
    every = rows_of(reader, node, None, buckets)
    samples = {name: rolled_up(rows, tier_seconds, name, False) for name, rows in every.items()}
    steps = coarsen_tier(cells_between(reader, node, buckets, TIER_SCHEMA.names), tier_seconds)
    _refuse_unreadable(reader)
    place = f"{prefix}/{node.key}/{first:%Y%m%dT%H}-{last:%Y%m%dT%H}"
    made = []
    if samples:
        body = chunks.encode_tier(samples, Members(), NOT_DRAWN)
        made.append(_put(store, place, hours, "chart_samples", tier_seconds, body))
    if len(steps):
        body = chunks.encode_table(steps, Members())
        made.append(_put(store, place, hours, "chart_steps", tier_seconds, body))
    return made


def span_of(hour_ms: int, tier_seconds: int) -> range:
    """Return the hours, in Unix milliseconds, that share a chart's chunk with this one."""
    length_ms = CHART_TIER_HOURS[tier_seconds] * HOUR_MS
    first = hour_ms // length_ms * length_ms
    return range(first, first + length_ms, HOUR_MS)


def hours_between(first_ms: int, last_ms: int) -> tuple[datetime, datetime]:
    """Return the range of whole hours from the first to the last, both included."""
    return from_ms(first_ms), from_ms(last_ms + HOUR_MS)


def _refuse_unreadable(reader: NodeReader) -> None:
    if reader.unreadable:
        raise CompactionError(f"unreadable: {', '.join(reader.unreadable)}")


def _bodies(reader: NodeReader, hour_ms: int) -> dict[tuple[ChunkKind, int], bytes]:
    bodies: dict[tuple[ChunkKind, int], bytes] = {}
    ticks, members = reader.ticks(hour_ms, None)
    if ticks:
        bodies["samples", 0] = chunks.encode_ticks(ticks, members)
    for tier in TIERS_SECONDS:
        rows = dict(reader.rows(hour_ms, None, tier))
        if rows:
            known = Members()
            known.update(members)
            known.update(reader.tier_members(hour_ms, tier))
            bodies["samples", tier] = chunks.encode_tier(rows, known)
    steps, members = reader.steps(hour_ms)
    bodies.update(_step_bodies(steps, members))
    events, members = reader.events(hour_ms)
    if len(events):
        bodies["events", 0] = chunks.encode_table(events, members)
    return bodies


def _step_bodies(
    steps: pa.Table, members: Members
) -> Iterator[tuple[tuple[ChunkKind, int], bytes]]:
    if len(steps):
        yield ("steps", 0), chunks.encode_table(steps, members)
        tier = cells_of(steps, STEP_TIER_SECONDS)
        yield ("steps", STEP_TIER_SECONDS), chunks.encode_table(tier, members)


def _put(
    store: ObjectStore,
    place: str,
    hours: tuple[datetime, datetime],
    kind: ChunkKind,
    tier: int,
    body: bytes,
) -> ChunkRef:
    digest = hashlib.sha256(body).hexdigest()[:32]
    key = f"{place}-{kind}-{tier}-{digest}.{'tail' if kind == 'tail' else 'parquet'}"
    store.put(key, body)
    return ChunkRef(key, kind, tier, *hours, size_bytes=len(body))
