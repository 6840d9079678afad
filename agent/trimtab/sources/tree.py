"""The run's processes: the command that was launched and everything it started.

Children are found by /proc/<pid>/task/*/children, whose cost doesn't grow with the number of other
processes on the machine. CPU time and bytes of a process that ended and was waited for are in its
parent's figures; what nobody waited for is carried on here, so the totals never fall.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass

from trimtab.sources.procfile import MEMORY_STEP_BYTES, ProcFile, Reading, rounded

_RESCAN_SECONDS_PER_THREAD = 0.02
"""A look at one thread costs 5 us, so that looking for new children stays below 1 CPU-s an hour."""
_LONGEST_RESCAN_SECONDS = 2.0
_CONFIRM_READS = 4
_KEPT_OPEN = 150
"""Beyond this many processes the files are opened anew for each read: descriptors are limited."""


class NeverFalling:
    """A total over processes that come and go.

    Between the read of a parent and that of a child the child may end, so a fall is first waited
    out: by the next read the parent shows it. One that stays is what a process took with it.
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


@dataclass(slots=True)
class _Usage:
    cpu_seconds: float
    rss_bytes: int
    threads: int
    read_bytes: int | None
    written_bytes: int | None


class _Process:
    """One process, told from a later one of the same number by its open files or start time."""

    def __init__(self, pid: int, keep_open: bool) -> None:
        self.pid = pid
        self._keep_open = keep_open
        self._files: dict[str, ProcFile] = {}
        self._started = self._stat()[19]

    def usage(self) -> _Usage:
        stat = self._stat()
        if stat[19] != self._started:
            raise ProcessLookupError(self.pid)
        read_bytes, written_bytes = self._io()
        return _Usage(
            cpu_seconds=sum(map(int, stat[11:15])) / _TICKS_PER_SECOND,
            rss_bytes=max(0, int(stat[21])) * _PAGE_BYTES,
            threads=int(stat[17]),
            read_bytes=read_bytes,
            written_bytes=written_bytes,
        )

    def children(self) -> list[int]:
        found: list[int] = []
        for task in os.listdir(f"/proc/{self.pid}/task"):  # noqa: PTH208 - a third of Path's cost
            with suppress(OSError):
                file = ProcFile(f"/proc/{self.pid}/task/{task}/children")
                found += map(int, file.read().split())
                file.close()
        return found

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _stat(self) -> list[bytes]:
        """The fields after the name, which may itself hold spaces and brackets."""
        return self._read("stat").rpartition(b")")[2].split()

    def _io(self) -> tuple[int | None, int | None]:
        """Bytes from and to storage; (None, None) for another user's process."""
        try:
            fields = dict(line.split(b": ") for line in self._read("io").splitlines())
            return int(fields[b"read_bytes"]), int(fields[b"write_bytes"])
        except (PermissionError, FileNotFoundError, KeyError):
            return None, None

    def _read(self, name: str) -> bytes:
        file = self._files.get(name) or ProcFile(f"/proc/{self.pid}/{name}")
        if self._keep_open:
            self._files[name] = file
            return file.read()
        try:
            return file.read()
        finally:
            file.close()


_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ProcessTree:
    """`tree.*` of one command: CPU seconds, resident bytes, processes, threads, storage bytes.

    Resident bytes are added up, so pages that processes share count once for each.
    """

    def __init__(self, root_pid: int) -> None:
        self._known: dict[int, _Process] = {}
        self._scan_at = 0.0
        self._threads = 1
        self._cpu, self._reads, self._writes = NeverFalling(), NeverFalling(), NeverFalling()
        self._reaped_cpu_seconds = 0.0
        self._add(root_pid)

    def read(self) -> Reading:
        if time.monotonic() >= self._scan_at:
            self._scan()
        found = [self._usage(process) for process in list(self._known.values())]
        usages = [usage for usage in found if usage]
        cpu_seconds = self._cpu.total(sum(u.cpu_seconds for u in usages) + self._reaped_cpu_seconds)
        totals: Reading = {
            "tree.cpu_seconds_total": round(cpu_seconds, 2),
            "tree.read_bytes_total": _bytes(self._reads, [u.read_bytes for u in usages]),
            "tree.written_bytes_total": _bytes(self._writes, [u.written_bytes for u in usages]),
        }
        self._threads = sum(usage.threads for usage in usages)
        return totals | _gauges(usages) if usages else totals

    def pids(self) -> set[int]:
        """As of the last look; may be called from any thread."""
        return set(self._known)

    def follow(self, pid: int) -> None:
        """One more root: another command of the same run."""
        self._add(pid)

    def reaped(self, cpu_seconds: float) -> None:
        """The root ended; `cpu_seconds` is what the kernel counted for it and its children."""
        self._reaped_cpu_seconds = cpu_seconds

    def _usage(self, process: _Process) -> _Usage | None:
        try:
            return process.usage()
        except (OSError, IndexError, ValueError):
            process.close()
            self._known.pop(process.pid, None)
            return None

    def _scan(self) -> None:
        """Parents before children: a child that ends in between is then missed, not doubled."""
        pause = min(_LONGEST_RESCAN_SECONDS, self._threads * _RESCAN_SECONDS_PER_THREAD)
        self._scan_at = time.monotonic() + pause
        queue = list(self._known)
        for pid in queue:
            with suppress(OSError):
                queue += [child for child in self._known[pid].children() if self._add(child)]

    def _add(self, pid: int) -> bool:
        if pid in self._known:
            return False
        with suppress(OSError, IndexError):
            self._known[pid] = _Process(pid, keep_open=len(self._known) < _KEPT_OPEN)
            return True
        return False


def _gauges(usages: list[_Usage]) -> Reading:
    return {
        "tree.rss_bytes": rounded(sum(u.rss_bytes for u in usages), MEMORY_STEP_BYTES),
        "tree.processes_count": len(usages),
        "tree.threads_count": sum(u.threads for u in usages),
    }


def _bytes(total: NeverFalling, values: list[int | None]) -> int | None:
    """None as soon as one process may not be looked at: half a sum would look like a whole one."""
    known = [value for value in values if value is not None]
    return int(total.total(sum(known))) if len(known) == len(values) else None
