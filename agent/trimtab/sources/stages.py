"""The stages of a shell command: `sh -c "python prepare.py && python train.py"` has two.

A stage is a process that a shell of the run started and that is no shell itself. Commands that
end within a second, and those that only pass on text (`... | tee log`), are no stages.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trimtab.identity import entry_point, shorten_name
from trimtab.redaction import redact_command
from trimtab.sources.process import Process

Record = Callable[[str, "dict[str, object]"], None]

_LEAST_SECONDS = 1.0
"""The shortest stage: shorter commands prepare one, such as mkdir, date, export (ours)."""
_FIND_SECONDS = 3.0
"""The time within which the children of a process are found: it is looked for them every two
seconds at least."""
_LOOK_SECONDS = 0.2
"""The time of a look: one takes a moment, and a process that has ended waits for its shell."""
_MOST_STAGES = 200
"""The most stages: a loop may start thousands of commands."""
_SHELLS = {"sh", "bash", "dash", "ash", "zsh", "ksh", "fish", "busybox", "make"}
_WRAPPERS = {"env", "time", "nohup", "timeout", "nice", "stdbuf", "sudo", "tini", "dumb-init"}
_RUNNERS = _SHELLS | _WRAPPERS
_FILTERS = {"cat", "grep", "egrep", "sed", "awk", "gawk", "mawk", "tail", "head", "tr", "cut", "ts"}
_PASS_ON = _FILTERS | {"tee", "less", "more", "sort", "wc", "sleep"}


@dataclass
class _Stage:
    """One stage that has begun."""

    number: int
    name: str
    parent: int
    began: float
    """The start in seconds after boot, as all times here."""
    seen: float
    """The time at which it was last seen alive."""
    ended: float = 0.0
    """The time at which it was first seen to have ended; 0 while it runs."""


class Stages:
    """Records when each stage began and ended. Looks only at children of the run's shells."""

    def __init__(self, record: Record, secrets: Sequence[str]) -> None:
        self._record = record
        self._secrets = secrets
        self._running: dict[int, _Stage] = {}
        self._ended: list[_Stage] = []
        """Stages whose end isn't recorded yet: the begin of the next one is more exact."""
        self._runners: set[int] = set()
        self._free_since: dict[int, float] = {}
        """The time at which the last stage of a shell ended, or began, by the id of the shell."""
        self._others: set[int] = set()
        self._count = 0

    def look(self, processes: Iterable[Process], is_over: bool) -> None:
        """Look at the living processes of the run.

        Args:
            processes: parents before children.
            is_over: the command has ended, and with it all stages.
        """
        now = _since_boot()
        living = {process.pid: process for process in processes}
        self._runners &= living.keys()
        self._others &= living.keys()
        for pid in [pid for pid in self._running if pid not in living]:
            stage = self._running.pop(pid)
            stage.ended = self._free_since[stage.parent] = now
            self._ended.append(stage)
        for pid, process in living.items():
            if pid in self._running:
                self._running[pid].seen = now
            elif pid not in self._others:
                self._classify(process, now)
        self._settle(living.values(), now)
        if is_over:
            self._finish(now)

    def _finish(self, now: float) -> None:
        for stage in self._running.values():
            stage.ended = now
        for stage in (*self._ended, *self._running.values()):
            self._report_end(stage, now)
        self._ended, self._running = [], {}

    def _classify(self, process: Process, now: float) -> None:
        """Classify a process. A shell may become its last command (`exec`), so shells are looked at
        again.
        """
        parent = process.parent
        if parent is not None and parent.pid not in self._runners:
            if parent.pid in self._others or parent.pid in self._running:
                self._others.add(process.pid)
            return
        if parent is not None and now - process.started_seconds < _LEAST_SECONDS:
            return
        words = _words(process)
        if not words:
            return  # it is being replaced by another program, or has just ended
        program = Path(words[0].lstrip("-")).name
        self._runners.discard(process.pid)
        if program in _RUNNERS:
            self._runners.add(process.pid)
        elif program in _PASS_ON or self._count >= _MOST_STAGES:
            self._others.add(process.pid)
        elif parent is not None or process.pid in self._free_since:
            free_since = self._free_since.get(process.pid, process.started_seconds)
            self._begin(process, words, free_since, now)
        else:
            self._others.add(process.pid)

    def _begin(self, process: Process, words: list[str], began: float, now: float) -> None:
        self._count += 1
        name = shorten_name(Path(redact_command([entry_point(words)], self._secrets)[0]).name)
        parent = process.parent.pid if process.parent else process.pid
        self._free_since[parent] = now
        self._running[process.pid] = _Stage(self._count, name, parent, began, now)
        seconds = round(max(0.0, now - began), 3)
        self._record("stage_begin", {"number": self._count, "name": name, "seconds": seconds})

    def _settle(self, living: Iterable[Process], now: float) -> None:
        """Settle when stages ended: a stage ended when the shell started its next command, which
        may take a while to find.
        """
        if not self._ended:
            return
        starts = [(p.parent.pid, p.started_seconds) for p in living if p.parent]
        waiting = []
        for stage in self._ended:
            following = [
                at
                for pid, at in starts
                if pid == stage.parent and stage.seen - _LOOK_SECONDS < at <= stage.ended
            ]
            if following:
                stage.ended = min(following)
            if following or now - stage.ended > _FIND_SECONDS:
                self._report_end(stage, now)
            else:
                waiting.append(stage)
        self._ended = waiting

    def _report_end(self, stage: _Stage, now: float) -> None:
        data = {"number": stage.number, "name": stage.name}
        times = {"seconds": stage.ended - stage.began, "ago_seconds": now - stage.ended}
        rounded = {name: round(max(0.0, value), 3) for name, value in times.items()}
        self._record("stage_end", {**data, **rounded})


def _words(process: Process) -> list[str]:
    with suppress(OSError):
        return [os.fsdecode(word) for word in process.words() if word]
    return []


def _since_boot() -> float:
    """Return the time on the clock by which the kernel dates the start of a process."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
