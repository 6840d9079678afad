"""One process of the run, by its files in /proc."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import NamedTuple

from trimtab.sources.procfile import ProcFile

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_SPAWNED = b"multiprocessing.spawn"
_SUSPENDED = (b"T", b"t")
"""States of a process that SIGSTOP or a debugger holds."""
_STAT_FIELDS, _IO_WORDS = 22, 12
"""The fields and words that are needed."""


class Traffic(NamedTuple):
    """Bytes since the process began, those of children that it waited for included."""

    read: int
    """Read from storage, without the page cache and mostly without network file systems."""
    written: int
    requested: int
    """Bytes requested by reads from any source, including pipes and network file systems."""
    passed_on: int
    """Bytes written to any target."""


class ProcessUsage(NamedTuple):
    """CPU time is that since the process began, with the children that it waited for."""

    cpu_seconds: float
    rss_bytes: int
    threads: int
    is_suspended: bool


class Waits(NamedTuple):
    """Shares of the time between two reads."""

    awake: float
    """The share in which the leading thread ran, or was ready and waited for a core."""
    waited: float
    """The share in which it waited."""


class Process:
    """A process, identified by its open files or start time if the kernel reuses its id."""

    def __init__(self, pid: int, parent: Process | None, keep_open: bool) -> None:
        """Open the process's files. Raises OSError, IndexError or ValueError if it has ended or
        can't be read.
        """
        self.pid = pid
        self.is_worker = self.is_rank = False
        self.parent = parent
        self._children = 0
        self.quiet_since, self.scan_at = time.monotonic(), 0.0
        """The time since when it has lost no child, and the time at which its children are looked
        for again."""
        self._is_settled = False
        self._keep_open = keep_open
        self._files: dict[str, ProcFile] = {}
        self._started = self._stat()[19]
        self.traffic: Traffic | None = None
        """The traffic; None for another user's process."""
        self.run_delay_seconds: float | None = None
        """The time for which its leading thread was ready and waited for a core; None if
        unknown."""
        self.waits: Waits | None = None
        """The shares since the read before; None if unknown."""
        self._ran_seconds = self._read_at = 0.0
        self.read()
        if parent is not None:
            parent._children += 1

    @property
    def is_leaf(self) -> bool:
        """Return whether the process is neither a root nor known to have children."""
        return self._children == 0 and self.parent is not None

    def has_lost_child(self) -> None:
        """Note that it has lost a child: it may start another one now."""
        self._children -= 1
        self.quiet_since, self.scan_at = time.monotonic(), 0.0

    def exists(self) -> bool:
        """Return False once it was waited for; in a hundredth of the time that reading it takes."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return True

    def read(self) -> None:
        """Read the process. Raises OSError, IndexError or ValueError if it has ended."""
        stat = self._stat()
        if stat[19] != self._started:
            raise ProcessLookupError(self.pid)
        ticks = int(stat[11]) + int(stat[12]) + int(stat[13]) + int(stat[14])
        rss_bytes = max(0, int(stat[21])) * _PAGE_BYTES
        is_suspended = stat[0] in _SUSPENDED
        self.usage = ProcessUsage(ticks / _TICKS_PER_SECOND, rss_bytes, int(stat[17]), is_suspended)
        self.traffic = self._traffic()
        if not self.is_worker:
            self._read_waits(time.monotonic())

    def _read_waits(self, now: float) -> None:
        """Read for how long the leading thread ran, and for how long it waited."""
        try:
            ran, waited = _leading_thread_seconds(self._file("schedstat"))
        except (OSError, ValueError):
            ran = waited = 0.0
        before, took = self.run_delay_seconds, now - self._read_at
        self.run_delay_seconds, self.waits = waited if ran else None, None
        if ran and before is not None and took > 0:
            awake = ran - self._ran_seconds + waited - before
            self.waits = Waits(awake / took, (waited - before) / took)
        self._ran_seconds, self._read_at = ran, now

    @property
    def started_seconds(self) -> float:
        """Return when it began, in seconds after boot."""
        return int(self._started) / _TICKS_PER_SECOND

    def settle(self, is_rank: bool) -> None:
        """Decide at the second look whether the process is a data-loader worker.

        Before its exec a child looks like its parent, so the first look would be too early.

        A worker is a Python that was forked from a Python with the same command line, or spawned by
        `multiprocessing`. Ranks can start in this way, too, and aren't workers.
        """
        self.is_rank = is_rank
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
        """Return the words of the command line."""
        file = ProcFile(f"/proc/{self.pid}/cmdline")
        words = file.read().split(b"\0")
        file.close()
        return words

    def _stat(self) -> list[bytes]:
        """Return the first fields after the name, which may contain spaces and brackets."""
        return self._file("stat").rpartition(b")")[2].split(None, _STAT_FIELDS)

    def _traffic(self) -> Traffic | None:
        """Return the traffic. The kernel writes names and numbers in turn, always in the same
        order.
        """
        try:
            words = self._file("io").split(None, _IO_WORDS)
            return Traffic(int(words[9]), int(words[11]), int(words[1]), int(words[3]))
        except (PermissionError, FileNotFoundError, IndexError):
            return None

    def _file(self, name: str) -> bytes:
        file = self._files.get(name) or ProcFile(f"/proc/{self.pid}/{name}")
        if self._keep_open:
            self._files[name] = file
            return file.read()
        try:
            return file.read()
        finally:
            file.close()


def run_delay_seconds(pid: int) -> float | None:
    """Return for how long the leading thread of a process was ready and waited for a core, also
    when it has ended and isn't reaped; None if unknown.
    """
    try:
        with open(f"/proc/{pid}/schedstat", "rb") as file:  # noqa: PTH123 - a third of Path's cost
            ran, waited = _leading_thread_seconds(file.read())
    except (OSError, ValueError):
        return None
    return waited if ran else None


def _leading_thread_seconds(schedstat: bytes) -> tuple[float, float]:
    """Return for how long it ran and waited. A kernel that doesn't count it says that no thread
    ever ran.
    """
    ran_ns, waited_ns, _ = schedstat.split()
    return int(ran_ns) / 1e9, int(waited_ns) / 1e9


def is_hidden(pid: int) -> bool:
    """Return whether the process is another user's where /proc is mounted with `hidepid`: it lives,
    but has no files.
    """
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return False
