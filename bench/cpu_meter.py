"""CPU seconds of groups of processes, those that ended meanwhile included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import psutil

Roots = Callable[[], Iterable[tuple[str, psutil.Process]]]


class CpuMeter:
    """The CPU seconds by name of the group: a process and all that it started. Read it now and
    then.
    """

    def __init__(self, roots: Roots) -> None:
        """Begin to count. `roots` are the groups and their first processes, as they are now. A
        process in several groups counts in the last.
        """
        self._roots = roots
        self._used: dict[tuple[int, float], tuple[str, float]] = {}
        self._before: Counter[str] = Counter()
        self.read()

    def read(self) -> None:
        for name, root in self._roots():
            try:
                every = [root, *root.children(recursive=True)]
            except psutil.Error:
                continue
            for process in every:
                self._add(name, process)

    def begin(self) -> None:
        """Leave out what was used until now."""
        self.read()
        self._before = self._sums()

    def seconds(self) -> dict[str, float]:
        self.read()
        return {name: used - self._before[name] for name, used in self._sums().items()}

    def _add(self, name: str, process: psutil.Process) -> None:
        try:
            times = process.cpu_times()
            self._used[process.pid, process.create_time()] = name, times.user + times.system
        except psutil.Error:
            pass

    def _sums(self) -> Counter[str]:
        sums: Counter[str] = Counter()
        for name, used in self._used.values():
            sums[name] += used  # type: ignore[assignment]
        return sums
