"""One process of the service, as its supervisor sees it: started, watched, restarted, stopped.

Standard library only, like the supervisor.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from webapp.service import watchdog

STANDSTILL_SECONDS = 60.0
"""The longest time without CPU time before the first sign of life. On a slow machine a start takes
long, but the process uses the processor all the time."""
SETTLED_SECONDS = 1.0
"""The time within which a process that gives no signs of life and can't start, due to a wrong
setting, ends."""
STOPPED_SECONDS = 20.0
FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 0.2, 30.0
STEADY_SECONDS, STEADY_AFTER_HANG_SECONDS = 30, 600
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
STOPPED_STATES = (b"T", b"t")
"""The states of a process that SIGSTOP or a debugger has stopped."""
PR_SET_PDEATHSIG = 1
PULSE_VARIABLE = "TRIMTAB_PULSE"
"""The variable that names the descriptor to which a child gives its signs of life."""


@dataclass
class Child:
    """One process that should always run."""

    name: str
    command: list[str]
    stop_signal: int
    orphan_signal: int
    patience_seconds: float
    silence_seconds: float | None = None
    """The longest time without a sign of life before the process counts as hung; None if it gives
    none."""
    standstill_seconds: float = STANDSTILL_SECONDS
    """The longest time without CPU time, before the first sign of life."""
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    start_again_at: float = 0.0
    delay_seconds: float = FIRST_DELAY_SECONDS
    starts: int = 0
    pulse: int | None = None
    """The descriptor that its signs of life come from."""
    first_sign_at: float | None = None
    sign_at: float | None = None
    """The time of the last sign of life."""
    ran_at: float = 0.0
    """The time at which the process was last seen running, not stopped by a signal."""
    cpu_seconds: float = 0.0
    advanced_at: float = 0.0
    """The time at which `cpu_seconds` last grew."""

    def start(self, log: IO[bytes] | None, told: Mapping[str, int] | None = None) -> None:
        """Start the process in a process group of its own: Ctrl-C reaches the supervisor alone,
        which stops all.

        `told`: descriptors to inherit, by the variables that name them.
        """
        signs = self._pulse_end()
        inherited = dict(told or {})
        if signs:
            inherited[PULSE_VARIABLE] = signs[0]
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=os.environ | {name: str(fd) for name, fd in inherited.items()},
            pass_fds=tuple(inherited.values()),
            process_group=0,
            preexec_fn=dies_with_parent(self.orphan_signal),
        )
        for fd in signs:
            os.close(fd)
        self.started_at = self.ran_at = self.advanced_at = time.monotonic()
        self.first_sign_at = self.sign_at = None
        self.cpu_seconds = 0.0
        self.starts += 1

    def _pulse_end(self) -> list[int]:
        """Return the end of a new pipe that the process writes its signs of life to."""
        if self.silence_seconds is None:
            return []
        self._stop_listening()
        self.pulse, write_end = os.pipe()
        for fd in (self.pulse, write_end):
            os.set_blocking(fd, False)
        return [write_end]

    def _stop_listening(self) -> None:
        if self.pulse is not None:
            os.close(self.pulse)
        self.pulse = None

    def listen(self) -> None:
        """Note whether the process has given signs of life since the last time."""
        if self.pulse is None:
            return
        with contextlib.suppress(BlockingIOError):
            if os.read(self.pulse, 65_536):
                self.sign_at = time.monotonic()
                self.first_sign_at = self.first_sign_at or self.sign_at
            else:
                self._stop_listening()

    def settled_at(self) -> float | None:
        """Return when the start had succeeded, as far as can be seen; None if it hasn't yet."""
        if self.process is None:
            return None
        if self.silence_seconds is not None:
            return self.first_sign_at
        settled_at = self.started_at + SETTLED_SECONDS
        return settled_at if settled_at < time.monotonic() else None

    def hangs(self, now: float) -> str | None:
        """Return how the process hangs, or None if it doesn't, as far as can be seen."""
        if self.process is None:
            return None
        self._look(self.process.pid, now)
        if now - self.ran_at > STOPPED_SECONDS:
            return "stopped by a signal"
        if self.silence_seconds is None:
            return None
        if self.sign_at is None:
            stands_still = now - self.advanced_at > self.standstill_seconds
            return f"no progress for {self.standstill_seconds:g} s" if stands_still else None
        return "no sign of life" if now - self.sign_at > self.silence_seconds else None

    def _look(self, pid: int, now: float) -> None:
        """Note whether the process runs and advances; if that is unknown, assume both."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:
            self.ran_at = self.advanced_at = now
            return
        if stat[0] not in STOPPED_STATES:
            self.ran_at = now
        cpu_seconds = (int(stat[11]) + int(stat[12])) / TICKS_PER_SECOND
        if cpu_seconds > self.cpu_seconds:
            self.cpu_seconds, self.advanced_at = cpu_seconds, now

    def forgive(self, now: float) -> None:
        self.ran_at = self.advanced_at = now
        self.sign_at = self.sign_at and now

    def end_hung(self) -> None:
        """End a process that hangs, and plan its restart."""
        if self.process is not None:
            self.kill_group()
            self.process.wait()
            self.process = None
            self._plan_restart(STEADY_AFTER_HANG_SECONDS)

    def collect_ending(self) -> str | None:
        """Return how the process ended, once; None while it runs or is known to be down."""
        if self.process is None or self.process.poll() is None:
            return None
        code = self.process.returncode
        self.kill_group()
        self.process = None
        if code in watchdog.ENDINGS:
            # After the seconds that this took, a pause would only make the outage longer.
            self._plan_restart(0)
            return watchdog.ENDINGS[code]
        self._plan_restart(STEADY_SECONDS)
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return f"ended ({how})"

    def _plan_restart(self, steady_seconds: float) -> None:
        """Plan the restart: at once after a steady life; after a short one with a delay that
        doubles.
        """
        now = time.monotonic()
        steady = now - self.started_at > steady_seconds
        self.delay_seconds = FIRST_DELAY_SECONDS if steady else self.delay_seconds
        self.start_again_at = now + self.delay_seconds
        self.delay_seconds = min(self.delay_seconds * 2, LONGEST_DELAY_SECONDS)

    def is_due(self) -> bool:
        return self.process is None and time.monotonic() >= self.start_again_at

    def stop(self) -> None:
        """Ask the process to stop, wait, then kill what is left of its process group."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(self.stop_signal)
        try:
            self.process.wait(self.patience_seconds)
        except subprocess.TimeoutExpired:
            self.kill_group()
            self.process.wait()
        self.kill_group()
        self.process = None

    def kill_group(self) -> None:
        """Kill the process group, so that no child outlives the process: a killed Celery leaves its
        pool behind.
        """
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)


def dies_with_parent(orphan_signal: int, parent: int | None = None) -> Any:
    """Return what a child runs before its program: Linux signals it when its parent is killed.

    The parent (default: this process) may already be gone: then the child ends here.
    """
    parent_pid = os.getpid() if parent is None else parent
    libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None

    def prepare() -> None:
        if libc is not None:
            libc.prctl(PR_SET_PDEATHSIG, orphan_signal)
        if os.getppid() != parent_pid:
            os._exit(1)

    return prepare
