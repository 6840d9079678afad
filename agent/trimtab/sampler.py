"""The sampling thread: reads every source twice a second, seals a segment every ten."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from trimtab.draft import SegmentDraft
from trimtab.loops import LoopRecords, TrainingLoops
from trimtab.sources import Reading, SeriesSource, SpanSource
from trimtab.timeline import SessionTimeline

SEAL_SECONDS = 10.0
_GAP_SECONDS = 2.0
_GAP_TICKS = 4
_CLOCK_STEP_NS = 2_000_000_000

Seal = Callable[[SegmentDraft, LoopRecords, int], None]
"""A function that is called with the samples and steps of a segment, and its end in ns since the
session's start."""


class _Closing(NamedTuple):
    """A segment that has ended, and waits for late answers about its last seconds."""

    draft: SegmentDraft
    loops: LoopRecords
    ended_ns: int


class Sampler(threading.Thread):
    """Thread that ticks by the monotonic clock. A missed tick is skipped.

    A tick that is much too late (machine suspended, process stopped) begins a new segment with a
    `gap` event; `from_ms` and `to_ms` count from the start of the session.

    A segment is sealed when its last tick has been answered by the source that answers in arrears,
    at the latest with the end of the next one.
    """

    def __init__(
        self,
        sources: list[SeriesSource],
        loops: TrainingLoops,
        timeline: SessionTimeline,
        interval_seconds: float,
        seal: Seal,
        in_arrears: SpanSource | None = None,
    ) -> None:
        """Create the thread. `in_arrears` is the source that answers some series for the time
        since, if one does.
        """
        super().__init__(name="trimtab-sampler", daemon=True)
        self._sources = sources
        self._loops = loops
        self._timeline = timeline
        self._interval_ns = self._asked_interval_ns = round(interval_seconds * 1e9)
        self._seal = seal
        self._in_arrears = in_arrears
        self._closing: _Closing | None = None
        self.problem = ""
        self._stop_asked = threading.Event()
        self._last_events: list[tuple[str, dict[str, Any]]] = []
        self._draft = self._new_draft(0)
        self._ticked_ns = timeline.now_ns()
        self._suspended_ns = self._clock_step_ns = 0
        self._draft.event(0, "process_start")

    def run(self) -> None:
        due = time.monotonic_ns() + self._interval_ns
        while not self._stop_asked.wait(max(0, due - time.monotonic_ns()) / 1e9):
            self._safely(self._tick, (time.monotonic_ns() - due) // 1_000_000)
            due += self._interval_ns
            if due < time.monotonic_ns():
                missed = (time.monotonic_ns() - due) // self._interval_ns + 1
                due += missed * self._interval_ns
        self._safely(self._finish)

    def _safely(self, work: Callable[..., None], *arguments: int) -> None:
        """Do work whose errors may lose a sample, but must not reach the training."""
        try:
            work(*arguments)
        except Exception as error:
            self.problem = f"{type(error).__name__}: {error}"

    def set_interval(self, seconds: float) -> None:
        """Change the interval after the next tick, in a new segment; may be called from any
        thread.
        """
        self._asked_interval_ns = round(seconds * 1e9)

    def finish(self, events: list[tuple[str, dict[str, Any]]], at_most_seconds: float) -> None:
        """Take a last sample, seal with these events, and end the thread."""
        self._last_events = events
        self._stop_asked.set()
        self.join(at_most_seconds)

    def _tick(self, late_ms: int) -> None:
        now = self._timeline.now_ns()
        if now - self._ticked_ns > max(_GAP_SECONDS * 1e9, _GAP_TICKS * self._interval_ns):
            self._begin_after_gap(now)
        else:
            reading = self._read()
            reading["agent.tick_late_ms"] = max(0, late_ms)
            self._draft.add(now, reading)
            self._fill()
            self._loops.poll()
        self._ticked_ns = now
        if self._closing and self._is_answered(self._closing.ended_ns):
            self._close()
        self._watch_clock(now)
        if self._interval_ns != self._asked_interval_ns:
            self._change_interval(now)
        elif now - self._draft.start_ns >= SEAL_SECONDS * 1e9 - self._interval_ns / 2:
            self._seal_draft(now)

    def _change_interval(self, now: int) -> None:
        """Begin a new segment for a new interval: a segment has one resolution."""
        self._seal_draft(now)
        self._interval_ns = self._asked_interval_ns
        self._draft = self._new_draft(now)

    def _read(self) -> Reading:
        reading: Reading = {}
        for source in self._sources:
            with suppress(OSError, ValueError, IndexError, KeyError):
                reading.update(source.read())
        return reading

    def _begin_after_gap(self, now: int) -> None:
        """Read once without keeping the values: rates over the gap would be wrong."""
        before, self._suspended_ns = self._suspended_ns, self._timeline.suspended_ns()
        reason = "suspended" if self._suspended_ns - before > 1e9 else "late"
        self._seal_draft(self._ticked_ns, began_next=now)
        from_ms, to_ms = self._ticked_ns // 1_000_000, now // 1_000_000
        self._draft.event(now, "gap", from_ms=from_ms, to_ms=to_ms, reason=reason)
        self._read()

    def _watch_clock(self, now: int) -> None:
        """Record an event if the wall clock was set; sample times don't change."""
        step = self._timeline.clock_step_ns()
        if abs(step - self._clock_step_ns) > _CLOCK_STEP_NS:
            seconds = round((step - self._clock_step_ns) / 1e9, 1)
            self._draft.event(now, "clock_step", seconds=seconds)
            self._clock_step_ns = step

    def _seal_draft(self, ended_ns: int, began_next: int | None = None) -> None:
        self._close()
        draft = self._draft
        self._draft = self._new_draft(ended_ns if began_next is None else began_next)
        self._closing = _Closing(draft, self._loops.seal(draft.start_ns), ended_ns)
        if self._is_answered(ended_ns):
            self._close()

    def _is_answered(self, until_ns: int) -> bool:
        source = self._in_arrears
        answered_ns = source.answered_until_ns if source else math.inf
        return math.isinf(answered_ns) or (
            self._timeline.from_monotonic_ns(int(answered_ns)) >= until_ns
        )

    def _fill(self) -> None:
        """Complete ticks of the past with what became known about them."""
        to_session = self._timeline.from_monotonic_ns
        for span in self._in_arrears.take_spans() if self._in_arrears else ():
            span = span._replace(
                since_ns=to_session(span.since_ns), until_ns=to_session(span.until_ns)
            )
            if self._closing:
                self._closing.draft.fill(span)
            self._draft.fill(span)

    def _close(self) -> None:
        closing, self._closing = self._closing, None
        if closing:
            self._seal(*closing)

    def _new_draft(self, start_ns: int) -> SegmentDraft:
        return SegmentDraft(start_ns, self._interval_ns // 1_000_000)

    def _finish(self) -> None:
        if self._in_arrears:
            self._in_arrears.settle()
        now = self._timeline.now_ns()
        self._draft.add(now, self._read())
        self._fill()
        for kind, data in self._last_events:
            self._draft.event(now, kind, **data)
        self._seal_draft(now)
        self._close()
