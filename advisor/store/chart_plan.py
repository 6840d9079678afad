"""Chooses which of a node's objects a chart reads: as few as the width of its buckets allows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from advisor.store.grid import SampleGrid
from advisor.store.index import (
    CHART_TIER_HOURS,
    HOUR_MS,
    TIERS_SECONDS,
    ChunkKind,
    ChunkRef,
    NodeHistory,
    to_ms,
)

MOST_WIDENED = 1.5
"""The factor by which buckets may be wider than asked for, so that a coarser tier fills them."""
DRAWN_TIERS_SECONDS = tuple(sorted({*TIERS_SECONDS, *CHART_TIER_HOURS}))


@dataclass(frozen=True)
class Buckets:
    """The buckets of a chart. If they are aligned, their edges are edges of the tier's cells, so
    each holds exactly the samples that lie in it."""

    tier_seconds: int
    grid: SampleGrid
    is_aligned: bool = True

    @property
    def start_ms(self) -> int:
        return int(self.grid.start_ms)

    @property
    def end_ms(self) -> int:
        return int(np.ceil(self.grid.start_ms + self.grid.count * self.grid.width_ms))

    @property
    def width_seconds(self) -> float:
        return self.grid.width_ms / 1000

    def no_shorter_than(self, seconds: float, times: tuple[datetime, datetime]) -> Buckets:
        """Return wider buckets if need be, for the same times."""
        if seconds <= self.width_seconds:
            return self
        return buckets_of(*times, self.grid.count, seconds, is_aligned=self.is_aligned)

    def starts_seconds(self, start: datetime) -> np.ndarray:
        """Return where each begins, in seconds since `start`."""
        offset_ms = self.grid.start_ms - to_ms(start)
        return np.asarray((offset_ms + np.arange(self.grid.count) * self.grid.width_ms) / 1000)


def buckets_of(
    start: datetime, end: datetime, most: int, least_seconds: float = 0.001, *, is_aligned: bool
) -> Buckets:
    """Return at most `most` buckets that cover [start, end), none narrower than `least_seconds`.

    They read the coarsest tier that fills them.

    Args:
        is_aligned: they are made of whole cells of a tier, so they may be a little wider than asked
            for and begin before `start`. Else they are exactly as asked for, and a cell counts in
            the bucket of its middle.
    """
    length_ms = (end - start) / timedelta(milliseconds=1)
    width_ms = max(length_ms / max(most, 1), least_seconds * 1000, 1.0)
    for tier in reversed(DRAWN_TIERS_SECONDS) if is_aligned else ():
        aligned = _aligned(to_ms(start), to_ms(end), tier * 1000, width_ms, most)
        if aligned.width_ms <= MOST_WIDENED * width_ms:
            return Buckets(tier, aligned, is_aligned)
    tier = max((t for t in DRAWN_TIERS_SECONDS if t * 1000 <= width_ms), default=0)
    count = max(int(np.ceil(round(length_ms / width_ms, 9))), 1)
    even = SampleGrid.even(to_ms(start), width_ms, count)
    return Buckets(0 if is_aligned else tier, even, is_aligned)


def _aligned(start_ms: int, end_ms: int, cell_ms: int, width_ms: float, most: int) -> SampleGrid:
    first_ms = start_ms // cell_ms * cell_ms
    # The cells at both ends count in full.
    cells = max(-(-(end_ms - first_ms) // cell_ms), 1)
    wide = max(-(-cells // max(most, 1)), int(-(-width_ms // cell_ms)))
    return SampleGrid.even(first_ms, wide * cell_ms, -(-cells // wide))


@dataclass(frozen=True)
class ChartPlan:
    """The chunks of many hours to read, each with the hours that it is read for; and other hours,
    which are read from chunks of their own."""

    chunks: list[tuple[ChunkRef, set[int]]]
    hours: list[int]


def plan(node: NodeHistory, kind: ChunkKind, hours: Collection[int], buckets: Buckets) -> ChartPlan:
    """Choose the chunks of many hours, and the hours with objects of their own, to read.

    Args:
        kind: that of the chunks of many hours.
        hours: those with objects of their own.
    """
    low = buckets.start_ms // HOUR_MS * HOUR_MS
    wanted = range(low, buckets.end_ms, HOUR_MS)
    open_hours = set(wanted) - uncompacted_hours(node)
    found = []
    for ref in sorted(node.chunks, key=lambda ref: -ref.tier_seconds):
        if ref.kind == kind and ref.tier_seconds <= buckets.tier_seconds:
            mine = open_hours & set(range(to_ms(ref.starts_at), to_ms(ref.ends_at), HOUR_MS))
            open_hours -= mine
            if mine:
                found.append((ref, mine))
    covered = {hour for _, mine in found for hour in mine}
    return ChartPlan(
        found, sorted(hour for hour in hours if hour in wanted and hour not in covered)
    )


def uncompacted_hours(node: NodeHistory) -> set[int]:
    """Return the hours of which chunks of many hours don't have everything."""
    hot = {hour for ref in node.segments for hour in ref.hours_ms}
    return hot | {ref.hour_ms for ref in node.chunks if ref.kind == "tail"}
