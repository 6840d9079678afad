"""Hot segments of one node and hour become one Parquet file, tiers, steps and events."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta

import pandas as pd

from advisor.store import chunks
from advisor.store.data import NodeData, merged_rollups, rolled_up
from advisor.store.index import ChunkKind, ChunkRef, NodeHistory
from advisor.store.objects import ObjectStore
from advisor.store.reading import TIERS_SECONDS, Reader
from advisor.store.segments import THINNED_SECONDS

HOUR = timedelta(hours=1)


class CompactionError(RuntimeError):
    """An object of the hour can't be read; compacting without it would lose it for good."""


def compact(store: ObjectStore, node: NodeHistory, hour: datetime, prefix: str) -> list[ChunkRef]:
    """Merge the node's segments in [hour, hour + 1 h) with that hour's chunks into new chunks.

    Deletes nothing: the caller swaps its rows, then deletes. Keys hold the content's hash, so doing
    it again gives the same objects.

    Raises:
        CompactionError: an object of the hour is unreadable.
    """
    reader = Reader(store)
    data = reader.node(node, hour, hour + HOUR)
    if reader.unreadable:
        raise CompactionError(f"unreadable: {', '.join(reader.unreadable)}")
    tables = _tables(_of_hour(data, hour))
    return [
        _put(store, f"{prefix}/{node.key}/{hour:%Y%m%dT%H}", hour, kind, tier, table)
        for (kind, tier), table in tables.items()
        if len(table)
    ]


def _tables(data: NodeData) -> dict[tuple[ChunkKind, int], pd.DataFrame]:
    thinned = data.rollups[THINNED_SECONDS]
    tables: dict[tuple[ChunkKind, int], pd.DataFrame] = {
        ("samples", 0): data.samples,
        ("thinned", THINNED_SECONDS): thinned,
        ("steps", 0): data.steps,
        ("events", 0): data.events,
    }
    for tier in TIERS_SECONDS:
        tables["samples", tier] = merged_rollups([rolled_up(data.samples, tier), thinned], tier)
    return tables


def _of_hour(data: NodeData, hour: datetime) -> NodeData:
    """Steps and events of this hour only; a segment may reach into the next."""
    low_ms, high_ms = (round(m.timestamp() * 1000) for m in (hour, hour + HOUR))
    steps, events = data.steps, data.events
    in_hour = (steps["start_us"] >= low_ms * 1000) & (steps["start_us"] < high_ms * 1000)
    near = (events["time_ms"] >= low_ms) & (events["time_ms"] < high_ms)
    return NodeData(data.samples, data.rollups, steps[in_hour], events[near])


def _put(
    store: ObjectStore, prefix: str, hour: datetime, kind: ChunkKind, tier: int, table: pd.DataFrame
) -> ChunkRef:
    body = chunks.encode(table)
    digest = hashlib.sha256(body).hexdigest()[:32]
    key = f"{prefix}-{kind}-{tier}-{digest}.parquet"
    store.put(key, body)
    return ChunkRef(key, kind, tier, starts_at=hour, ends_at=hour + HOUR)
