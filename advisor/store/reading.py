"""Merges what is stored of a node - hot segments and chunks - into tables."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

import pandas as pd
from pyarrow import ArrowException
from trimtab.wire import WireError

from advisor.store import chunks
from advisor.store.data import (
    EVENT_FIELDS,
    STATISTICS,
    STEP_FIELDS,
    NodeData,
    merged_rollups,
    merged_rows,
    merged_samples,
    rolled_up,
)
from advisor.store.index import ChunkRef, NodeHistory, SegmentRef
from advisor.store.objects import ObjectMissingError, ObjectStore
from advisor.store.segments import THINNED_SECONDS, segment_data

TIERS_SECONDS = (10, 60)
Read = TypeVar("Read")
logger = logging.getLogger(__name__)


@dataclass
class Reader:
    """Reads objects; a missing or broken one is named in `unreadable`, never taken as zero."""

    store: ObjectStore
    unreadable: list[str] = field(default_factory=list)

    def read(self, key: str, decode: Callable[[bytes], Read]) -> Read | None:
        try:
            return decode(self.store.get(key))
        except (ObjectMissingError, WireError, ArrowException, OSError, KeyError) as error:
            logger.warning("unreadable object", extra={"key": key, "error": str(error)})
            self.unreadable.append(key)
            return None

    def node(
        self,
        node: NodeHistory,
        start: datetime,
        end: datetime,
        names: Collection[str] | None = None,
        tier_seconds: int = 0,
    ) -> NodeData:
        """What is known of a node within [start, end).

        Args:
            names: the series to read; None: all. Steps and events come only with all.
            tier_seconds: 0 for raw samples; else only this tier's roll-ups are read and made.
        """
        hot = [self.segment(ref) for ref in node.segments if _overlaps(ref, start, end)]
        segments = [data for data in hot if data is not None]
        near = [ref for ref in node.chunks if ref.starts_at < end and ref.ends_at > start]
        samples = merged_samples([data.samples for data in segments])
        return NodeData(
            samples=_within(self._raw(samples, near, names, tier_seconds), start, end),
            rollups=self._rollups(segments, samples, near, names, tier_seconds, start, end),
            steps=self._rows("steps", [d.steps for d in segments], near, names, STEP_FIELDS),
            events=self._rows("events", [d.events for d in segments], near, names, EVENT_FIELDS),
        )

    def segment(self, ref: SegmentRef) -> NodeData | None:
        return self.read(ref.key, lambda body: segment_data(ref, body))

    def _raw(
        self,
        hot: pd.DataFrame,
        near: Iterable[ChunkRef],
        names: Collection[str] | None,
        tier_seconds: int,
    ) -> pd.DataFrame:
        if tier_seconds:
            return merged_samples([])
        wanted = None if names is None else {"time_ms", *names}
        stored = self._tables(near, "samples", 0, wanted)
        return _only(merged_samples([*stored, hot]), names)

    def _rollups(
        self,
        segments: list[NodeData],
        samples: pd.DataFrame,
        near: Iterable[ChunkRef],
        names: Collection[str] | None,
        tier_seconds: int,
        start: datetime,
        end: datetime,
    ) -> dict[int, pd.DataFrame]:
        """The asked tier whole; when raw samples are asked for, only what was never raw."""
        kept = None if names is None else {f"{n}:{s}" for n in names for s in STATISTICS}
        wanted = None if kept is None else {"time_ms", *kept}
        parts = [table for data in segments for table in data.rollups.values()]
        if tier_seconds:
            parts += [rolled_up(samples, tier_seconds)]
            parts += self._tables(near, "samples", tier_seconds, wanted)
        else:
            parts += self._tables(near, "thinned", THINNED_SECONDS, wanted)
        tier = tier_seconds or THINNED_SECONDS
        first_cell = start - timedelta(seconds=tier) + timedelta(milliseconds=1)
        table = _only(merged_rollups(parts, tier), kept)
        return {tier: _within(table, first_cell, end)}

    def _rows(
        self,
        kind: str,
        hot: list[pd.DataFrame],
        near: Iterable[ChunkRef],
        names: Collection[str] | None,
        fields: dict[str, str],
    ) -> pd.DataFrame:
        if names is not None:
            return merged_rows([], fields)
        stored = [table.astype(fields) for table in self._tables(near, kind, 0, None)]
        return merged_rows([*stored, *hot], fields)

    def _tables(
        self, near: Iterable[ChunkRef], kind: str, tier_seconds: int, wanted: Collection[str] | None
    ) -> list[pd.DataFrame]:
        refs = [ref for ref in near if (ref.kind, ref.tier_seconds) == (kind, tier_seconds)]
        tables = [self.read(ref.key, lambda body: chunks.decode(body, wanted)) for ref in refs]
        return [table for table in tables if table is not None]


def _overlaps(ref: SegmentRef, start: datetime, end: datetime) -> bool:
    begins = ref.session_started_at + timedelta(milliseconds=ref.start_ms)
    return begins < end and begins + timedelta(milliseconds=ref.duration_ms) >= start


def _within(table: pd.DataFrame, start: datetime, end: datetime) -> pd.DataFrame:
    low, high = (round(moment.timestamp() * 1000) for moment in (start, end))
    return table[(table.index >= low) & (table.index < high)]


def _only(table: pd.DataFrame, names: Collection[str] | None) -> pd.DataFrame:
    return table if names is None else table[[n for n in table.columns if n in names]]
