"""Reads the rings of the training processes into steps and events of a segment."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab import ring
from trimtab.recorder import PHASES
from trimtab.ring_events import ring_event
from trimtab.steps import RankSteps, Step
from trimtab.timeline import SessionTimeline
from trimtab.wire import Event, StepBlock, StepSummary

if TYPE_CHECKING:
    from trimtab.probe import Watch

_RECORDED_LATE = frozenset(("rank", "restore", "checkpoint_loaded"))
"""The events that a process records with its first step: when it began, and what it loaded
before."""
_MOST_EVENTS = 4_000
"""The most events per segment. Metrics above this number are dropped and counted until the next
segment."""


@dataclass
class LoopRecords:
    """Parts of a segment that come from the loops."""

    steps: list[StepBlock] = field(default_factory=list)
    summaries: list[StepSummary] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


class _Process:
    """One training process: its ring, and its steps since the last seal."""

    def __init__(self, path: Path) -> None:
        self.reader = ring.RingReader(path)
        self.steps = RankSteps(self.reader.rank)
        self.lost_before = 0
        self.phases_kept: list[bool] = []
        """True for each phase that has begun, not ended and is kept, the innermost last."""


class TrainingLoops:
    """The rings of a run's processes on this node."""

    def __init__(
        self,
        folder: Path,
        timeline: SessionTimeline,
        taken_over: bool = False,
        watch: Watch | None = None,
    ) -> None:
        """Follow the rings in a folder.

        Args:
            taken_over: another agent has already read what is in the folder now.
            watch: of a probe; it is told each step.
        """
        self._folder = folder
        self._timeline = timeline
        self._watch = watch
        self._processes: dict[str, _Process | None] = {}
        self._events: list[tuple[int, str, dict[str, Any]]] = []
        self._events_lost = 0
        if taken_over:
            self._skip_what_is_there()

    def _skip_what_is_there(self) -> None:
        for path in self._folder.glob("*.ring"):
            self._open(path.name)
        for process in filter(None, self._processes.values()):
            process.reader.skip()

    def poll(self) -> None:
        """Read new records. Must be called often enough that no ring overflows."""
        with suppress(OSError):
            for name in os.listdir(self._folder):  # noqa: PTH208 - runs at every tick
                if name.endswith(".ring") and name not in self._processes:
                    self._open(name)
        for name, process in self._processes.items():
            if process:
                self._read(name, process)
        if self._watch:
            self._watch.note_poll()

    def seal(self, start_ns: int) -> LoopRecords:
        """Return everything since the last seal, in times since `start_ns` of the session."""
        self.poll()
        sealed = LoopRecords()
        for process in filter(None, self._processes.values()):
            blocks, summaries = process.steps.seal(start_ns // 1000)
            sealed.steps += blocks
            sealed.summaries += summaries
            self._report_lost(process)
        if self._events_lost:
            lost = {"count": self._events_lost}
            self._events.append((self._timeline.now_ns(), "events_lost", lost))
        for at_ns, kind, data in self._events:
            if at_ns < start_ns and kind in _RECORDED_LATE:
                data["ago_seconds"] = round((start_ns - at_ns) / 1e9, 6)
            sealed.events.append(Event(max(0, at_ns - start_ns) // 1_000_000, kind, data))
        self._events, self._events_lost = [], 0
        return sealed

    def _open(self, name: str) -> None:
        """Open a ring. An empty one is opened at a later call; one that can't be read is never
        retried.
        """
        path = self._folder / name
        with suppress(OSError):
            if not ring.is_made(path):
                return
        self._processes[name] = None
        with suppress(OSError, ValueError):
            self._processes[name] = _Process(path)

    def _read(self, name: str, process: _Process) -> None:
        for kind, phase, flags, mono_ns, a, b, c, d in process.reader.records():
            at_ns = self._timeline.from_monotonic_ns(mono_ns)
            with suppress(IndexError, OSError):
                if kind == ring.STEP:
                    step = _step(PHASES[phase], at_ns, a, b, c, d)
                    process.steps.add(step)
                    if self._watch:
                        self._watch.step(name, process.reader.rank, step)
                else:
                    self._event(process, kind, at_ns, phase, flags, (a, b, c, d))

    def _event(
        self, process: _Process, kind: int, at_ns: int, phase: int, name: int, rest: tuple[Any, ...]
    ) -> None:
        if self._is_too_much(process, kind):
            self._events_lost += 1
            return
        data: dict[str, Any] = {"rank": process.reader.rank}
        if kind == ring.LOG:
            data |= {"name": process.reader.name(name), "value": rest[0], "step": _known(rest[1])}
            self._events.append((at_ns, "metric", data))
        elif kind == ring.EPOCH:
            self._events.append((at_ns, "epoch", data | {"number": rest[0]}))
        elif kind == ring.UNTIMED_STEP:
            data |= {"phase": PHASES[phase], "samples": _known(rest[2])}
            data |= {} if rest[3] < 0 else {"tokens": rest[3]}
            self._events.append((at_ns, "step_untimed", data))
        elif kind in (ring.PHASE_BEGIN, ring.PHASE_END):
            begins = "phase_begin" if kind == ring.PHASE_BEGIN else "phase_end"
            self._events.append((at_ns, begins, data | {"phase": PHASES[phase]}))
        elif event := ring_event(kind, name, rest):
            self._events.append((at_ns, event[0], data | event[1]))

    def _is_too_much(self, process: _Process, kind: int) -> bool:
        """Return whether an event exceeds what a segment holds. Either both ends of a phase are
        kept or none.
        """
        is_full = len(self._events) >= _MOST_EVENTS
        if kind == ring.PHASE_BEGIN:
            process.phases_kept.append(not is_full)
            return is_full
        if kind == ring.PHASE_END:
            return bool(process.phases_kept) and not process.phases_kept.pop()
        return is_full and kind in (ring.LOG, ring.UNTIMED_STEP, ring.EPOCH)

    def _report_lost(self, process: _Process) -> None:
        lost = process.reader.lost - process.lost_before
        if lost:
            process.lost_before = process.reader.lost
            data = {"rank": process.reader.rank, "count": lost}
            self._events.append((self._timeline.now_ns(), "steps_lost", data))


def _step(
    phase: str, at_ns: int, duration_ns: int, wait_ns: int, samples: int, tokens: int
) -> Step:
    wait_us = None if wait_ns < 0 else wait_ns // 1000
    end_us, duration_us = at_ns // 1000, duration_ns // 1000
    return Step(phase, end_us, duration_us, wait_us, _known(samples), _known(tokens))


def _known(value: int) -> int | None:
    return None if value < 0 else value
