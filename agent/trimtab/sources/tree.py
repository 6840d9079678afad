"""The run's processes: the command and everything that it started.

Children are found by /proc/<pid>/task/*/children, whose cost doesn't grow with the number of other
processes on the machine. Daemons, which leave the tree, are found every few seconds. If the kernel
hides one of the processes, all series are unknown: a partial sum would look complete.

In a large tree the processes without children are read in turn, each at least every five seconds,
so that 200 data loaders cost no more than 60 reads a second. All that is summed counts up, so
the totals lag by that time and lose nothing. CPU time and bytes of a process that ended and was
waited for are in its parent's figures. If nobody waited for it, what was last read is kept here.
"""

from __future__ import annotations

import math
import os
import time
from collections import defaultdict, deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from trimtab.descriptors import spare_for_sources
from trimtab.ring import process_of
from trimtab.sources.never_falling import NeverFalling
from trimtab.sources.orphans import Orphans
from trimtab.sources.process import Process, is_hidden
from trimtab.sources.procfile import MEMORY_STEP_BYTES, TRAFFIC_STEP_BYTES, Reading, round_bytes
from trimtab.sources.stages import Stages

_READS_PER_SECOND, _OLDEST_SECONDS = 60, 5.0
"""The reads of processes without children, and their longest age: a read takes about 20 us. The
larger number of reads counts."""
_PARENTS_PER_SECOND, _LOOKS_PER_SECOND = 100, 2000
"""Parents are read, and all others looked for (below 1 us each), at each tick in a tree of a few
hundred processes."""
_MOST_TRIES = 5
_RESCAN_SECONDS_PER_THREAD = 0.1
"""Scanning one thread takes 5 to 20 us: the scans take less than 1 CPU-second an hour."""
_LONGEST_RESCAN_SECONDS, _LEAF_RESCAN_SECONDS = 2.0, 10.0
"""The longest pauses between scans. The second is for processes that have had no children for so
long."""
_KEPT_OPEN = 150
"""Files of further processes are opened for each read, because descriptors are limited."""
_MOST_SEEN = 10_000
_FILES = 3
"""The files of one process."""
_COARSE_STEP_BYTES = 64 * 1024
_TRAFFIC = (
    ("tree.read_bytes_total", TRAFFIC_STEP_BYTES),
    ("tree.written_bytes_total", TRAFFIC_STEP_BYTES),
    ("tree.requested_bytes_total", _COARSE_STEP_BYTES),
    ("tree.passed_on_bytes_total", _COARSE_STEP_BYTES),
)
"""The series of traffic, in the order of `Traffic`."""


class ProcessTree:
    """`tree.*` of one command: CPU seconds, resident bytes, processes, threads, suspended
    processes, bytes read and written, the wait for cores; and `workers.*`, the same of its
    data-loader processes, once there have been some.

    Resident bytes are summed, so shared pages count once per process.
    """

    def __init__(
        self, root_pid: int, folder: Path | None = None, stages: Stages | None = None
    ) -> None:
        """Follow a command. `folder` has the rings of the ranks."""
        self._folder = folder
        self._orphans = Orphans(folder)
        self._hidden: set[int] = set()
        self._stages = stages
        self._known: dict[int, Process] = {}
        self._turns: deque[int] = deque()
        self.seen: set[int] = set()
        """The first `_MOST_SEEN` processes of the run, also after their end."""
        self.peak_rss_bytes = 0
        self._looked_at = time.monotonic()
        self._settle_at = self._scan_at = 0.0
        self._totals: dict[str, NeverFalling] = defaultdict(NeverFalling)
        self._reaped_cpu_seconds, self._is_reaped = 0.0, False
        self._root_pid, self._paced_by = root_pid, 0
        self._starved_seconds = 0.0
        self._has_had_workers = False
        self._kept_open = min(_KEPT_OPEN, spare_for_sources() // _FILES)
        self._add(root_pid)

    def read(self) -> Reading:
        now = time.monotonic()
        elapsed = now - self._looked_at
        if now >= self._scan_at:
            self._scan(now)
        if not self._read_in_turn(now) or now >= self._settle_at or self._is_reaped:
            self._settle()
            parents = sum(not each.is_leaf for each in self._known.values())
            looks = len(self._known) - parents
            self._settle_at = now + parents / _PARENTS_PER_SECOND + looks / _LOOKS_PER_SECOND
        if self._stages:
            self._stages.look(self._known.values(), self._is_reaped)
        processes = list(self._known.values())
        reading = self._of_all(processes)
        reading.update(self._starved(processes, elapsed))
        if processes:
            reading.update(self._of_workers([each for each in processes if each.is_worker]))
            reading.update(self._gauges(processes))
        return dict.fromkeys(reading) if self._hidden else reading

    def pids(self) -> set[int]:
        """Return the process ids at the last scan; may be called from any thread."""
        return set(self._known)

    def follow(self, pid: int) -> None:
        """Add another root: another command of the same run."""
        self._add(pid)

    def note_root_end(self, cpu_seconds: float, run_delay_seconds: float | None = None) -> None:
        """Note that the root ended.

        Args:
            cpu_seconds: what the kernel counted for it and its children.
            run_delay_seconds: for how long it waited for a core; None if unknown.
        """
        self._reaped_cpu_seconds, self._is_reaped = cpu_seconds, True
        root = self._known.get(self._root_pid)
        before = root.run_delay_seconds if root and self._paced_by == self._root_pid else None
        if run_delay_seconds is not None and before is not None:
            self._starved_seconds += max(0.0, run_delay_seconds - before)

    # Figures

    def _of_all(self, processes: Sequence[Process]) -> Reading:
        """Return the sums. Bytes are None if one process isn't readable: a partial sum would look
        complete.
        """
        cpu_seconds = sum(each.usage.cpu_seconds for each in processes) + self._reaped_cpu_seconds
        reading: Reading = {"tree.cpu_seconds_total": self._seconds("tree", cpu_seconds)}
        delays = [each.run_delay_seconds for each in processes if not each.is_worker]
        if known := [seconds for seconds in delays if seconds is not None]:
            reading["tree.run_delay_seconds_total"] = self._seconds("delay", sum(known))
        traffics = [each.traffic for each in processes if each.traffic]
        if len(traffics) < len(processes):
            return {**reading, **dict.fromkeys(name for name, _ in _TRAFFIC)}
        sums = map(sum, zip(*traffics)) if traffics else (0, 0, 0, 0)
        for (name, step_bytes), living in zip(_TRAFFIC, sums):
            reading[name] = round_bytes(int(self._totals[name].total(living)), step_bytes)
        return reading

    def _starved(self, processes: Sequence[Process], elapsed: float) -> Reading:
        """Return how long the run waited for a core: the process that sleeps least sets its pace,
        while others wait for it. Of ranks, if any is known."""
        waiting = [each for each in processes if each.waits and not each.is_worker]
        candidates = [each for each in waiting if each.is_rank] or waiting
        if candidates:
            pacing = max(candidates, key=lambda each: each.waits.awake if each.waits else 0.0)
            self._paced_by = pacing.pid
            self._starved_seconds += elapsed * (pacing.waits.waited if pacing.waits else 0.0)
        if self._is_reaped or candidates:
            return {"tree.starved_seconds_total": round(self._starved_seconds, 2)}
        return {}

    def _of_workers(self, workers: Sequence[Process]) -> Reading:
        self._has_had_workers |= bool(workers)
        if not self._has_had_workers:
            return {}
        rss_bytes = sum(each.usage.rss_bytes for each in workers)
        cpu_seconds = sum(each.usage.cpu_seconds for each in workers)
        return {
            "workers.processes": len(workers),
            "workers.cpu_seconds_total": self._seconds("workers", cpu_seconds),
            "workers.rss_bytes": round_bytes(rss_bytes, MEMORY_STEP_BYTES),
        }

    def _gauges(self, processes: Sequence[Process]) -> Reading:
        usages = [each.usage for each in processes]
        rss_bytes = sum(usage.rss_bytes for usage in usages)
        self.peak_rss_bytes = max(self.peak_rss_bytes, rss_bytes)
        return {
            "tree.rss_bytes": round_bytes(rss_bytes, MEMORY_STEP_BYTES),
            "tree.processes_count": len(usages),
            "tree.threads_count": sum(usage.threads for usage in usages),
            "tree.suspended_count": sum(usage.is_suspended for usage in usages),
        }

    def _seconds(self, whose: str, seconds: float) -> float:
        return round(self._totals[whose].total(seconds), 2)

    # Reading

    def _read_in_turn(self, now: float) -> bool:
        """Read some of the processes without children; return False if one of them has ended."""
        elapsed = min(now - self._looked_at, _OLDEST_SECONDS)
        self._looked_at = now
        turns = len(self._turns)
        most = math.ceil(max(_READS_PER_SECOND, turns / _OLDEST_SECONDS) * elapsed)
        are_alive = True
        for _ in range(turns if self._is_reaped else min(most, turns)):
            process = self._known.get(self._turns.popleft())
            if process is None:
                continue
            if process.is_leaf and not self._read(process):
                are_alive = False
            else:
                self._turns.append(process.pid)
        return are_alive

    def _settle(self) -> None:
        """Read all parents at a moment at which none of their children has just ended.

        When a process is waited for, its parent's figures take over its own. So a sum is right if
        each parent was read while all the others that count were still there: those that have gone
        are taken out, and the parents are read again.
        """
        for _ in range(_MOST_TRIES):
            before = len(self._known)
            for process in [each for each in self._known.values() if not each.is_leaf]:
                self._read(process)
            gone = [each for each in self._known.values() if each.is_leaf and not each.exists()]
            for process in gone:
                self._drop(process)
            if len(self._known) == before:
                return

    def _read(self, process: Process) -> bool:
        try:
            process.read()
        except (OSError, IndexError, ValueError):
            self._drop(process)
            return False
        return True

    def _drop(self, process: Process) -> None:
        process.close()
        del self._known[process.pid]
        if process.parent is not None:
            process.parent.has_lost_child()

    # Finding

    def _scan(self, now: float) -> None:
        threads = sum(each.usage.threads for each in self._known.values())
        pause = min(_LONGEST_RESCAN_SECONDS, threads * _RESCAN_SECONDS_PER_THREAD)
        self._scan_at = now + pause
        ranks = _ranks(self._folder) if self._folder else set()
        for process in self._known.values():
            process.settle(process.pid in ranks)
        self._hidden = {pid for pid in self._hidden if is_hidden(pid)}
        due = [pid for pid, each in self._known.items() if not each.is_leaf or now >= each.scan_at]
        self._add_children(due, now, pause)
        orphans = self._orphans.look(self._known, self.seen)
        self._add_children([pid for pid in orphans if self._add(pid)], now, pause)

    def _add_children(self, queue: list[int], now: float, pause: float) -> None:
        for pid in queue:
            with suppress(OSError, KeyError):
                process = self._known[pid]
                quiet_seconds = now - process.quiet_since
                process.scan_at = now + min(max(pause, quiet_seconds), _LEAF_RESCAN_SECONDS)
                queue += [child for child in process.children() if self._add(child, process)]

    def _add(self, pid: int, parent: Process | None = None) -> bool:
        if pid in self._known:
            return False
        with suppress(OSError, IndexError, ValueError):
            process = Process(pid, parent, keep_open=len(self._known) < self._kept_open)
            self._known[pid] = process
            self._turns.append(pid)
            if len(self.seen) < _MOST_SEEN:
                self.seen.add(pid)
            return True
        if is_hidden(pid):
            self._hidden.add(pid)
        return False


def _ranks(folder: Path) -> set[int]:
    return {process_of(name) for name in os.listdir(folder)}  # noqa: PTH208 - runs often
