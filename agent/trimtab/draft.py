"""A segment that is still being filled: column buffers and events."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from trimtab.sources import Reading
from trimtab.sources.procfile import TRAFFIC_STEP_BYTES, SeriesSpan
from trimtab.wire import Block, Event
from trimtab.wire.segment import Number

_NS_PER_MS = 1_000_000
_STEPS = {"bytes": TRAFFIC_STEP_BYTES, "ns": _NS_PER_MS}
"""The rounding steps of counters, by their units."""


class SegmentDraft:
    """Collects readings that begin at `start_ns` of the session, `resolution_ms` apart."""

    def __init__(self, start_ns: int, resolution_ms: int) -> None:
        self.start_ns = start_ns
        self.resolution_ms = resolution_ms
        self.events: list[Event] = []
        self._times_ms: list[int] = []
        self._columns: dict[str, list[Number]] = {}
        self._ticks_ns: list[int] = []
        self._means: dict[str, dict[int, tuple[int, float]]] = {}
        """The means by series and tick: for how long it is known, and its integral over that
        time."""

    def add(self, now_ns: int, reading: Reading) -> None:
        """Add one tick. A series that wasn't read is None; a second tick within one ms is left
        out.
        """
        time_ms = (now_ns - self.start_ns) // _NS_PER_MS
        if self._times_ms and time_ms <= self._times_ms[-1]:
            return
        before = len(self._times_ms)
        self._times_ms.append(max(0, time_ms))
        self._ticks_ns.append(now_ns)
        for name, value in reading.items():
            self._columns.setdefault(name, [None] * before).append(value)
        for column in self._columns.values():
            if len(column) == before:
                column.append(None)

    def fill(self, span: SeriesSpan) -> None:
        """Add what became known late about ticks of the past; `span` in ns of the session.

        A gauge is the mean since the tick before, a counter is on the line between its ends.
        """
        if span.name.endswith("_total"):
            self._fill_counter(span)
        else:
            self._fill_gauge(span)

    def _fill_counter(self, span: SeriesSpan) -> None:
        first = bisect_left(self._ticks_ns, span.since_ns)
        for place in range(first, bisect_right(self._ticks_ns, span.until_ns)):
            passed = (self._ticks_ns[place] - span.since_ns) / (span.until_ns - span.since_ns)
            value = span.first + passed * (span.last - span.first)
            self._column(span.name)[place] = _rounded(span.name, value)

    def _fill_gauge(self, span: SeriesSpan) -> None:
        place = bisect_right(self._ticks_ns, span.since_ns)
        while place < len(self._ticks_ns):
            began_ns = self._ticks_ns[place - 1] if place else self.start_ns
            from_ns, to_ns = max(span.since_ns, began_ns), min(span.until_ns, self._ticks_ns[place])
            if from_ns >= span.until_ns:
                return
            if to_ns > from_ns:
                known = self._means.setdefault(span.name, {})
                known_ns, integral = known.get(place, (0, 0.0))
                lasts = to_ns - from_ns
                known[place] = known_ns + lasts, integral + lasts * span.last
            place += 1

    def _column(self, name: str) -> list[Number]:
        return self._columns.setdefault(name, [None] * len(self._times_ms))

    def event(self, now_ns: int, kind: str, **data: Any) -> None:
        time_ms = max(0, now_ns - self.start_ns) // _NS_PER_MS
        self.events.append(Event(time_ms, kind, data))

    def blocks(self) -> list[Block]:
        """Return the blocks. Series without any value are left out."""
        for name, ticks in self._means.items():
            column = self._column(name)
            for place, (lasts_ns, integral) in ticks.items():
                column[place] = _rounded(name, integral / lasts_ns)
        known = {n: c for n, c in self._columns.items() if any(v is not None for v in c)}
        return [Block(self._times_ms, known)] if known else []


def _rounded(name: str, value: float) -> int | float:
    """Round a value. The last digits of means and of what is between two readings are noise."""
    if not name.endswith("_total"):
        return round(value) if name.endswith("busy_pct") else round(value, 1)
    step = _STEPS.get(name.rsplit("_", 2)[1], 1)
    return int(value) // step * step
