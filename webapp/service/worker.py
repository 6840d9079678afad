"""Duties of a worker's main process beside its tasks: it shows that it lives, keeps as many
processes as there is work for, and ends a task that takes too much memory.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from celery import bootsteps
from celery.worker.autoscale import Autoscaler

from webapp import env
from webapp.service import pulse

TURN_SECONDS, LATE_SECONDS, LOOK_SECONDS = 1.0, 5.0, 0.5
WAIT_LOOKS, QUIET_SECONDS = 2, 120.0
"""The number of looks, a second apart, at a waiting task after which one more process starts, and
the time without need for a process after which it ends."""
LIKELIEST_VICTIM = 500
"""The adjustment that makes a pool process the likeliest victim when the kernel runs out of
memory."""

logger = logging.getLogger(__name__)


class Pulse(bootsteps.StartStopStep):  # type: ignore[misc]
    """Signs of life while the main loop turns, whatever the pool works on.

    A thread gives them, because the loop stands still on purpose while Redis can't be reached.
    """

    requires = ("celery.worker.components:Timer",)

    def start(self, worker: Any) -> None:
        self._turned_at = time.monotonic()
        worker.timer.call_repeatedly(TURN_SECONDS, self._turn)
        threading.Thread(target=self._give, args=(worker,), name="pulse", daemon=True).start()

    def _turn(self) -> None:
        self._turned_at = time.monotonic()

    def _give(self, worker: Any) -> None:
        while True:
            is_turning = time.monotonic() - self._turned_at < LATE_SECONDS
            if is_turning or worker.consumer is None or worker.consumer.connection is None:
                pulse.send_pulse()
            time.sleep(TURN_SECONDS)


class PoolSize(Autoscaler):  # type: ignore[misc]
    """One process while little is to do, because each takes memory; more while tasks wait.

    Celery's own way adds a process as soon as two short tasks come at once, and ends none while any
    task arrives, which the schedule makes happen every few seconds.
    """

    def __init__(self, *words: Any, **options: Any) -> None:
        super().__init__(*words, **options, keepalive=TURN_SECONDS)
        self._looks_with_waiting = 0
        self._needed_at = time.monotonic()

    def maybe_scale(self, req: Any = None) -> None:
        """Adjust the number of processes. Celery calls this every second, and with each task that
        arrives.
        """
        if req is not None:
            return
        now, processes = time.monotonic(), self.processes
        self._looks_with_waiting = self._looks_with_waiting + 1 if self.qty > processes else 0
        if self.qty >= processes:
            self._needed_at = now
        if self._looks_with_waiting >= WAIT_LOOKS and processes < self.max_concurrency:
            self._change(self._grow)
        elif processes > self.min_concurrency and now - self._needed_at > QUIET_SECONDS:
            self._needed_at = now
            self._change(self._shrink)

    def _change(self, how: Callable[[int], None]) -> None:
        self._looks_with_waiting = 0
        how(1)
        self.pool.maintain_pool()


class MemoryLimit(bootsteps.StartStopStep):  # type: ignore[misc]
    """Kills the pool process whose task takes too much memory; the others go on.

    The row of its work keeps the lease, so this counts as a death of its worker: after some of
    them it is given up (`webapp.background.claims`).
    """

    requires = ("celery.worker.components:Pool",)

    def start(self, worker: Any) -> None:
        most_bytes = env.integer("TRIMTAB_TASK_MEMORY_MB", 1500, low=300) * 1_000_000
        worker.timer.call_repeatedly(LOOK_SECONDS, _limit, (worker, most_bytes))


def _limit(worker: Any, most_bytes: int) -> None:
    for pid in worker.pool.info["processes"]:
        used_bytes = own_memory_bytes(pid)
        if used_bytes > most_bytes:
            facts = {"pid": pid, "megabytes": used_bytes // 1_000_000}
            logger.error("killed: the task takes too much memory", extra=facts)
            os.kill(pid, signal.SIGKILL)


def own_memory_bytes(pid: int) -> int:
    """Return the resident memory of a process without the files it maps; 0 if it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    parts = (fields.get(name, "0 kB") for name in ("RssAnon", "RssShmem"))
    return sum(int(part.split()[0]) * 1024 for part in parts)


def be_first_victim() -> None:
    """Make this process the kernel's first victim when memory runs out: one task is worth less than
    the worker or Redis.
    """
    path = Path("/proc/self/oom_score_adj")
    if path.exists():
        path.write_text(str(max(LIKELIEST_VICTIM, int(path.read_text(encoding="ascii")))))
