"""One process of the run, by its files in /proc."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass

from trimtab.sources.procfile import ProcFile

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SPAWNED = b"multiprocessing.spawn"
_SUSPENDED = (b"T", b"t")
"""States of a process that SIGSTOP or a debugger holds."""


@dataclass
class Traffic:
    """Since the process began."""

    read_bytes: int
    """Read from storage, without the page cache and mostly without network file systems."""
    written_bytes: int
    requested_bytes: int
    """Requested by reads from any source, including pipes and network file systems."""
    passed_on_bytes: int
    """Written to any target."""


@dataclass
class Usage:
    cpu_seconds: float
    rss_bytes: int
    threads: int
    traffic: Traffic | None
    """None for another user's process."""
    is_worker: bool
    is_suspended: bool


class Process:
    """A process, identified by its open files or start time if the kernel reuses its id."""

    def __init__(self, pid: int, parent: Process | None, keep_open: bool) -> None:
        self.pid = pid
        self.is_worker = False
        self.parent = parent
        self._is_settled = False
        self._keep_open = keep_open
        self._files: dict[str, ProcFile] = {}
        self._started = self._stat()[19]

    def usage(self) -> Usage:
        stat = self._stat()
        if stat[19] != self._started:
            raise ProcessLookupError(self.pid)
        return Usage(
            cpu_seconds=sum(map(int, stat[11:15])) / _TICKS_PER_SECOND,
            rss_bytes=max(0, int(stat[21])) * _PAGE_BYTES,
            threads=int(stat[17]),
            traffic=self._traffic(),
            is_worker=self.is_worker,
            is_suspended=stat[0] in _SUSPENDED,
        )

    @property
    def started_seconds(self) -> float:
        """When it began, in seconds after boot."""
        return int(self._started) / _TICKS_PER_SECOND

    def settle(self, is_rank: bool) -> None:
        """Decide at the second look whether the process is a data-loader worker.

        Before its exec a child looks like its parent, so the first look would be too early.

        A worker is a Python that was forked from a Python with the same command line, or spawned by
        `multiprocessing`. Ranks can start in this way, too, and aren't workers.
        """
        if is_rank:
            self.is_worker, self._is_settled = False, True
        elif not self._is_settled and self.parent is not None:
            self._is_settled = True
            with suppress(OSError):
                own = self.words()
                is_python = b"python" in own[0].rpartition(b"/")[2]
                is_like_parent = own == self.parent.words()
                self.is_worker = is_python and (is_like_parent or _SPAWNED in b" ".join(own))

    def children(self) -> list[int]:
        pids: list[int] = []
        for task in os.listdir(f"/proc/{self.pid}/task"):  # noqa: PTH208 - a third of Path's cost
            with suppress(OSError):
                file = ProcFile(f"/proc/{self.pid}/task/{task}/children")
                pids += map(int, file.read().split())
                file.close()
        return pids

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def words(self) -> list[bytes]:
        """The command line."""
        file = ProcFile(f"/proc/{self.pid}/cmdline")
        words = file.read().split(b"\0")
        file.close()
        return words

    def _stat(self) -> list[bytes]:
        """The fields after the name, which may contain spaces and brackets."""
        return self._read("stat").rpartition(b")")[2].split()

    def _traffic(self) -> Traffic | None:
        try:
            fields = dict(line.split(b": ") for line in self._read("io").splitlines())
            names = (b"read_bytes", b"write_bytes", b"rchar", b"wchar")
            return Traffic(*(int(fields[name]) for name in names))
        except (PermissionError, FileNotFoundError, KeyError):
            return None

    def _read(self, name: str) -> bytes:
        file = self._files.get(name) or ProcFile(f"/proc/{self.pid}/{name}")
        if self._keep_open:
            self._files[name] = file
            return file.read()
        try:
            return file.read()
        finally:
            file.close()
