"""Compacts hot segments of one node and hour to one Parquet file, tiers, steps and events."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

from advisor.store import chunks
from advisor.store.chunks import Members
from advisor.store.index import TIERS_SECONDS, ChunkKind, ChunkRef, NodeHistory, to_ms
from advisor.store.objects import ObjectStore
from advisor.store.reading import Reader

HOUR = timedelta(hours=1)


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
    reader = Reader(store, node)
    bodies = _bodies(reader, to_ms(hour))
    if reader.unreadable:
        raise CompactionError(f"unreadable: {', '.join(reader.unreadable)}")
    place = f"{prefix}/{node.key}/{hour:%Y%m%dT%H}"
    return [_put(store, place, hour, kind, tier, body) for (kind, tier), body in bodies.items()]


def _bodies(reader: Reader, hour_ms: int) -> dict[tuple[ChunkKind, int], bytes]:
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
    if len(steps):
        bodies["steps", 0] = chunks.encode_table(steps, members)
    events, members = reader.events(hour_ms)
    if len(events):
        bodies["events", 0] = chunks.encode_table(events, members)
    return bodies


def _put(
    store: ObjectStore, place: str, hour: datetime, kind: ChunkKind, tier: int, body: bytes
) -> ChunkRef:
    digest = hashlib.sha256(body).hexdigest()[:32]
    key = f"{place}-{kind}-{tier}-{digest}.parquet"
    store.put(key, body)
    return ChunkRef(key, kind, tier, starts_at=hour, ends_at=hour + HOUR, size_bytes=len(body))
