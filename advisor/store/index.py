"""The index of a node's stored objects: plain data from the service's rows. Reads nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from rules.frame import Hardware

ChunkKind = Literal["samples", "steps", "events", "tail", "chart_samples", "chart_steps", "columns"]
HOUR_KINDS: tuple[ChunkKind, ...] = ("samples", "steps", "events", "tail")
"""Chunks of one hour. A tail holds some of its newest segments until the hour is compacted."""
CHART_KINDS: tuple[ChunkKind, ...] = ("chart_samples", "chart_steps")
"""Chunks of many hours, for charts: a copy of what the hours' chunks hold."""
HOUR_MS = 3_600_000
TIERS_SECONDS = (10, 60)
STEP_TIER_SECONDS = 10
CHART_TIER_HOURS = {60: 24, 600: 7 * 24, 3600: 28 * 24}
"""Tier of a chart's chunk in seconds -> its hours, which count from the Unix epoch."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_us(moment: datetime) -> int:
    """Return whole microseconds since the Unix epoch; exact, as a float would not be."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def to_ms(moment: datetime) -> int:
    return to_us(moment) // 1000


def from_ms(time_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=time_ms)


def from_ns(time_ns: int) -> datetime:
    """Return the time, exact to the microsecond, as a float would not be."""
    return _EPOCH + timedelta(microseconds=time_ns // 1000)


@dataclass(frozen=True)
class SegmentRef:
    """One uploaded segment that is not compacted yet."""

    key: str
    session_id: str
    seq: int
    session_started_at: datetime
    """UTC, already corrected by the service's clock offset. The same for a whole session: compacted
    samples keep the time with which they were compacted."""
    start_ms: int
    duration_ms: int
    sample_count: int = 0
    """0: not known."""
    resolution_ms: int = 0
    """0: not known."""

    @property
    def start_us(self) -> int:
        return to_us(self.session_started_at) + self.start_ms * 1000

    @property
    def hours_ms(self) -> range:
        """Return the UTC hours that it touches, each by its start."""
        start_ms = self.start_us // 1000
        last_ms = start_ms + max(self.duration_ms - 1, 0)
        return range(start_ms // HOUR_MS * HOUR_MS, last_ms + 1, HOUR_MS)


@dataclass(frozen=True)
class ChunkRef:
    """One compacted object of one UTC hour, or of many (`CHART_KINDS`).

    Tier 0 is raw samples and steps; others are seconds.
    """

    key: str
    kind: ChunkKind
    tier_seconds: int
    starts_at: datetime
    ends_at: datetime
    size_bytes: int | None = None
    """The size; None if unknown."""

    @property
    def hour_ms(self) -> int:
        return to_ms(self.starts_at) // HOUR_MS * HOUR_MS


@dataclass(frozen=True)
class NodeHistory:
    """One node of a run with its stored segments and chunks."""

    key: str
    hardware: Hardware
    intervals: tuple[tuple[datetime, datetime], ...]
    segments: tuple[SegmentRef, ...]
    chunks: tuple[ChunkRef, ...]
