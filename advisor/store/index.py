"""What is stored of a node, as the service's rows tell it. Plain data; nothing is read here."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from rules.frame import Hardware

ChunkKind = Literal["samples", "thinned", "steps", "events"]
"""`thinned`: cells that an agent's full spool made before it sent them; no raw samples exist."""


@dataclass(frozen=True)
class SegmentRef:
    """One uploaded segment that is not compacted yet."""

    key: str
    session_id: str
    seq: int
    session_started_at: datetime
    """Already corrected by the service's clock offset; UTC."""
    start_ms: int
    duration_ms: int


@dataclass(frozen=True)
class ChunkRef:
    """One compacted Parquet file. Tier 0 is raw samples; 10 and 60 are seconds a row."""

    key: str
    kind: ChunkKind
    tier_seconds: int
    starts_at: datetime
    ends_at: datetime


@dataclass(frozen=True)
class NodeHistory:
    """One node of a run with everything that is stored of it."""

    key: str
    hardware: Hardware
    intervals: tuple[tuple[datetime, datetime], ...]
    segments: tuple[SegmentRef, ...]
    chunks: tuple[ChunkRef, ...]
