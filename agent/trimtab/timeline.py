"""Time since the start of a session, on the clock that also counts suspension."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from uuid import UUID

from trimtab.wire import SessionClock

_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_CLOCK_NOISE_NS = 1_000_000
"""The difference that counts as noise: two clocks are never read at the same instant."""


class SessionTimeline:
    """Nanoseconds since the start of the session.

    CLOCK_MONOTONIC stops while a machine is suspended, so later samples would be dated too early.
    CLOCK_BOOTTIME counts it; without suspension both are the same.
    """

    def __init__(self) -> None:
        self.started_at_ns = time.time_ns()
        self.started_mono_ns = time.monotonic_ns()
        self._started_boot_ns = time.clock_gettime_ns(_BOOT_CLOCK)

    def now_ns(self) -> int:
        return time.clock_gettime_ns(_BOOT_CLOCK) - self._started_boot_ns

    def suspended_ns(self) -> int:
        """Return how long the machine has been suspended since the session began."""
        gone_ns = self.now_ns() - (time.monotonic_ns() - self.started_mono_ns)
        return gone_ns if gone_ns > _CLOCK_NOISE_NS else 0

    def from_monotonic_ns(self, mono_ns: int) -> int:
        """Return a recent reading of CLOCK_MONOTONIC, as nanoseconds since the start of the
        session.
        """
        return mono_ns - self.started_mono_ns + self.suspended_ns()

    def clock_step_ns(self) -> int:
        """Return by how much the wall clock was set forward (or back) since the session began."""
        return time.time_ns() - self.started_at_ns - self.now_ns()

    def session_clock(self, session_id: UUID) -> SessionClock:
        return SessionClock(session_id, boot_id(), self.started_at_ns, self.started_mono_ns)


def boot_id() -> str:
    """Return a text that changes at every boot; hashed, because the kernel's value identifies the
    machine.
    """
    try:
        kernel_boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"
    return hashlib.sha256(kernel_boot_id.encode()).hexdigest()[:32]


def uuid7() -> UUID:
    """Return an id of RFC 9562 version 7: 48 bits of Unix milliseconds, then random; sorts by
    time.
    """
    value = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0b11 << 62) | 0b10 << 62
    return UUID(int=value)


def process_started(pid: int) -> str:
    """Return the start time of a process in clock ticks after boot; empty if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return ""
    return "" if stat[0] in (b"Z", b"X") else stat[19].decode()
