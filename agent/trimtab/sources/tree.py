"""The run's processes: the command and everything that it started.

Children are found by /proc/<pid>/task/*/children, whose cost doesn't grow with the number of other
processes on the machine. Daemons, which leave the tree, are found every few seconds. If the kernel
hides one of the processes, all series are unknown: a partial sum would look complete.

CPU time and bytes of a process that ended and was waited for are in its
parent's figures. If nobody waited for it, they are kept here, so the totals never fall.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from trimtab.descriptors import spare_for_sources
from trimtab.ring import process_of
from trimtab.sources.orphans import Orphans
from trimtab.sources.process import Process, Usage
from trimtab.sources.procfile import MEMORY_STEP_BYTES, TRAFFIC_STEP_BYTES, Reading, rounded
from trimtab.sources.stages import Stages

_RESCAN_SECONDS_PER_THREAD = 0.1
"""Scanning one thread takes 5 to 20 us: the scans take less than 1 CPU-second an hour."""
_LONGEST_RESCAN_SECONDS = 2.0
_CONFIRM_READS = 4
_KEPT_OPEN = 150
"""Files of further processes are opened for each read, because descriptors are limited."""
_MOST_SEEN = 10_000
_FILES = 2
"""Of one process."""
_COARSE_STEP_BYTES = 64 * 1024
_TRAFFIC = {
    "tree.read_bytes_total": ("read_bytes", TRAFFIC_STEP_BYTES),
    "tree.written_bytes_total": ("written_bytes", TRAFFIC_STEP_BYTES),
    "tree.requested_bytes_total": ("requested_bytes", _COARSE_STEP_BYTES),
    "tree.passed_on_bytes_total": ("passed_on_bytes", _COARSE_STEP_BYTES),
}


class NeverFalling:
    """A total over processes that come and go.

    A child may end between the reads of its parent and of itself. So a fall is first ignored for
    some reads, until the parent's figures include the child. If the fall stays, it is added back.
    """

    def __init__(self) -> None:
        self._shown = 0.0
        self._carried = 0.0
        self._fall = 0.0
        self._reads_below = 0

    def total(self, living: float) -> float:
        now = living + self._carried
        if now >= self._shown:
            self._shown, self._reads_below = now, 0
            return now
        self._reads_below += 1
        if self._reads_below == 1:
            self._fall = self._shown - now
        if self._reads_below > _CONFIRM_READS:
            self._carried += self._fall
            self._reads_below = 0
            self._shown = max(self._shown, living + self._carried)
        return self._shown


class ProcessTree:
    """`tree.*` of one command: CPU seconds, resident bytes, processes, threads, suspended
    processes, bytes read and written; and `workers.*`, the same of its data-loader processes, once
    there have been some.

    Resident bytes are summed, so shared pages count once per process.
    """

    def __init__(
        self, root_pid: int, folder: Path | None = None, stages: Stages | None = None
    ) -> None:
        """`folder`: the folder with the rings of the ranks."""
        self._folder = folder
        self._orphans = Orphans(folder)
        self._hidden = False
        self._stages = stages
        self._known: dict[int, Process] = {}
        self.seen: set[int] = set()
        """The first `_MOST_SEEN` processes of the run, also after their end."""
        self.peak_rss_bytes = 0
        self._scan_at = 0.0
        self._threads = 1
        self._totals: dict[str, NeverFalling] = defaultdict(NeverFalling)
        self._reaped_cpu_seconds, self._is_reaped = 0.0, False
        self._has_had_workers = False
        self._kept_open = min(_KEPT_OPEN, spare_for_sources() // _FILES)
        self._add(root_pid)

    def read(self) -> Reading:
        if time.monotonic() >= self._scan_at:
            self._scan()
        processes = list(self._known.values())
        usages = [usage for process in processes if (usage := self._usage(process))]
        self._threads = sum(usage.threads for usage in usages)
        rss_bytes = sum(usage.rss_bytes for usage in usages)
        self.peak_rss_bytes = max(self.peak_rss_bytes, rss_bytes)
        if self._stages:
            self._stages.look(self._known.values(), self._is_reaped)
        totals = self._of_all(usages)
        reading = totals | self._of_workers(usages) | _gauges(usages) if usages else totals
        return dict.fromkeys(reading) if self._hidden else reading

    def pids(self) -> set[int]:
        """The process ids at the last scan; may be called from any thread."""
        return set(self._known)

    def follow(self, pid: int) -> None:
        """Add another root: another command of the same run."""
        self._add(pid)

    def reaped(self, cpu_seconds: float) -> None:
        """The root ended; `cpu_seconds` is what the kernel counted for it and its children."""
        self._reaped_cpu_seconds, self._is_reaped = cpu_seconds, True

    def _of_all(self, usages: list[Usage]) -> Reading:
        """Bytes are None if one process isn't readable: a partial sum would look complete."""
        cpu_seconds = sum(u.cpu_seconds for u in usages) + self._reaped_cpu_seconds
        reading: Reading = {"tree.cpu_seconds_total": self._seconds("tree", cpu_seconds)}
        traffics = [u.traffic for u in usages if u.traffic]
        if len(traffics) < len(usages):
            return reading | dict.fromkeys(_TRAFFIC)
        for name, (field, step_bytes) in _TRAFFIC.items():
            total = self._totals[name].total(sum(getattr(traffic, field) for traffic in traffics))
            reading[name] = rounded(int(total), step_bytes)
        return reading

    def _of_workers(self, usages: list[Usage]) -> Reading:
        workers = [usage for usage in usages if usage.is_worker]
        self._has_had_workers |= bool(workers)
        if not self._has_had_workers:
            return {}
        rss_bytes = sum(u.rss_bytes for u in workers)
        cpu_seconds = sum(u.cpu_seconds for u in workers)
        return {
            "workers.processes": len(workers),
            "workers.cpu_seconds_total": self._seconds("workers", cpu_seconds),
            "workers.rss_bytes": rounded(rss_bytes, MEMORY_STEP_BYTES),
        }

    def _seconds(self, whose: str, seconds: float) -> float:
        return round(self._totals[whose].total(seconds), 2)

    def _usage(self, process: Process) -> Usage | None:
        try:
            return process.usage()
        except (OSError, IndexError, ValueError):
            process.close()
            self._known.pop(process.pid, None)
            return None

    def _scan(self) -> None:
        """Parents before children, so that a child that ends in between isn't counted twice."""
        pause = min(_LONGEST_RESCAN_SECONDS, self._threads * _RESCAN_SECONDS_PER_THREAD)
        self._scan_at = time.monotonic() + pause
        ranks = _ranks(self._folder) if self._folder else set()
        for process in self._known.values():
            process.settle(process.pid in ranks)
        self._hidden = False
        self._add_children(list(self._known))
        orphans = self._orphans.look(self._known, self.seen)
        self._add_children([pid for pid in orphans if self._add(pid)])

    def _add_children(self, queue: list[int]) -> None:
        for pid in queue:
            with suppress(OSError):
                process = self._known[pid]
                queue += [child for child in process.children() if self._add(child, process)]

    def _add(self, pid: int, parent: Process | None = None) -> bool:
        if pid in self._known:
            return False
        with suppress(OSError, IndexError):
            self._known[pid] = Process(pid, parent, keep_open=len(self._known) < self._kept_open)
            if len(self.seen) < _MOST_SEEN:
                self.seen.add(pid)
            return True
        self._hidden |= _is_hidden(pid)
        return False


def _is_hidden(pid: int) -> bool:
    """Another user's process where /proc is mounted with `hidepid`: it lives, but has no files."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _ranks(folder: Path) -> set[int]:
    return {process_of(name) for name in os.listdir(folder)}  # noqa: PTH208 - runs often


def _gauges(usages: list[Usage]) -> Reading:
    return {
        "tree.rss_bytes": rounded(sum(u.rss_bytes for u in usages), MEMORY_STEP_BYTES),
        "tree.processes_count": len(usages),
        "tree.threads_count": sum(u.threads for u in usages),
        "tree.suspended_count": sum(u.is_suspended for u in usages),
    }
