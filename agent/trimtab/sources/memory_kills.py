"""Processes that the kernel killed because memory ran out: how many, and how full memory was."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trimtab.sources.container import Groups

_KERNEL_LOG = Path("/dev/kmsg")
_MOST_RECORDS = 20_000
_RECORD_BYTES = 8_192
"""The kernel's longest record; a read returns one."""
_KILLED = re.compile(
    r"Killed process (?P<pid>\d+) \((?P<name>.*)\).*\banon-rss:(?P<anonymous>\d+)kB"
)
"""The kernel's line as mm/oom_kill.c prints it since Linux 3.7."""


class MemoryKills:
    """Kills since the start, of this cgroup, or else of the whole machine."""

    def __init__(self, groups: Groups | None = None, proc: Path = Path("/proc")) -> None:
        groups = groups or Groups()
        ours = groups.file("", "memory.events") or groups.file("memory", "memory.oom_control")
        self.is_own_group = ours is not None
        """True for this cgroup's kills. The machine's may be of another's processes."""
        self._counts = ours or proc / "vmstat"
        self._peak = groups.file("", "memory.peak") or groups.file(
            "memory", "memory.max_usage_in_bytes"
        )
        self._before = self._count()

    def since_start(self) -> int | None:
        """Return the kills, or None if this kernel doesn't count them."""
        now = self._count()
        return None if now is None or self._before is None else max(0, now - self._before)

    def peak_bytes(self) -> int | None:
        """Return the most that the cgroup has used, or None if unknown."""
        with suppress(OSError, ValueError):
            return int(self._peak.read_text()) if self._peak else None
        return None

    def _count(self) -> int | None:
        with suppress(OSError, ValueError):
            for line in self._counts.read_text().splitlines():
                name, _, value = line.partition(" ")
                if name == "oom_kill":
                    return int(value)
        return None


@dataclass(frozen=True)
class KilledProcess:
    """Process that the kernel killed, as its log describes it."""

    name: str
    rss_bytes: int


def killed_process(pids: Collection[int], since_boot_seconds: float) -> KilledProcess | None:
    """Return the last of these processes that the kernel killed; None if there is none, or the log
    isn't readable.
    """
    with suppress(OSError):
        return last_killed(_kernel_log(), pids, since_boot_seconds)
    return None


def last_killed(
    records: Iterable[str], pids: Collection[int], since_boot_seconds: float
) -> KilledProcess | None:
    """Return the last kill in `records`, lines of /dev/kmsg: `6,1234,98765432,-;text`, the third in
    us after boot.
    """
    found = None
    for record in records:
        head, _, text = record.partition(";")
        fields = head.split(",")
        killed = _KILLED.search(text)
        if killed is None or len(fields) < 3 or not fields[2].isdecimal():
            continue
        is_recent = int(fields[2]) / 1e6 >= since_boot_seconds
        if is_recent and int(killed["pid"]) in pids:
            found = KilledProcess(killed["name"], int(killed["anonymous"]) * 1024)
    return found


def _kernel_log() -> Iterator[str]:
    """Yield the kernel's log. Raises OSError if this user may not read it."""
    log = os.open(_KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        for _ in range(_MOST_RECORDS):
            try:
                yield os.read(log, _RECORD_BYTES).decode(errors="replace")
            except BrokenPipeError:
                continue  # a record was overwritten before it was read
            except BlockingIOError:
                return
    finally:
        os.close(log)


def now_since_boot_seconds() -> float:
    """Return the time on the clock of the kernel's log."""
    return time.monotonic()
