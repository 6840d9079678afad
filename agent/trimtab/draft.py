"""A segment that is still being filled: column buffers and events."""

from __future__ import annotations

from typing import Any

from trimtab.sources import Reading
from trimtab.wire import Block, Event
from trimtab.wire.segment import Number

_NS_PER_MS = 1_000_000


class Draft:
    """Collects readings that begin at `start_ns` of the session, `resolution_ms` apart."""

    def __init__(self, start_ns: int, resolution_ms: int) -> None:
        self.start_ns = start_ns
        self.resolution_ms = resolution_ms
        self.events: list[Event] = []
        self._times_ms: list[int] = []
        self._columns: dict[str, list[Number]] = {}

    def add(self, now_ns: int, reading: Reading) -> None:
        """One tick. A series that wasn't read is None; a second tick within one ms is left out."""
        time_ms = (now_ns - self.start_ns) // _NS_PER_MS
        if self._times_ms and time_ms <= self._times_ms[-1]:
            return
        before = len(self._times_ms)
        self._times_ms.append(max(0, time_ms))
        for name, value in reading.items():
            self._columns.setdefault(name, [None] * before).append(value)
        for column in self._columns.values():
            if len(column) == before:
                column.append(None)

    def event(self, now_ns: int, kind: str, **data: Any) -> None:
        time_ms = max(0, now_ns - self.start_ns) // _NS_PER_MS
        self.events.append(Event(time_ms, kind, data))

    def blocks(self) -> list[Block]:
        """Series without any value are left out."""
        known = {n: c for n, c in self._columns.items() if any(v is not None for v in c)}
        return [Block(self._times_ms, known)] if known else []
