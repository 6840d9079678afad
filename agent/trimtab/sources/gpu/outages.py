"""Outages of GPUs and driver: recorded once, and retried after growing pauses."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Record = Callable[[str, dict[str, Any]], None]

_FIRST_PAUSE_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 600.0


@dataclass
class _Outage:
    """A driver that doesn't answer."""

    since: float
    pause_seconds: float
    try_at: float


class Outages:
    """Outages by GPU number; None is the driver itself."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self._known: dict[int | None, _Outage] = {}

    def may_try(self, gpu: int | None) -> bool:
        outage = self._known.get(gpu)
        return outage is None or time.monotonic() >= outage.try_at

    def began(self, gpu: int | None, reason: str) -> None:
        """Record a new outage, or lengthen the pause of a known one."""
        now = time.monotonic()
        outage = self._known.get(gpu)
        if outage is None:
            self._known[gpu] = _Outage(now, _FIRST_PAUSE_SECONDS, now + _FIRST_PAUSE_SECONDS)
            self.record("gpu_gap", {"gpu": gpu, "reason": reason})
            return
        outage.pause_seconds = min(2 * outage.pause_seconds, _LONGEST_PAUSE_SECONDS)
        outage.try_at = now + outage.pause_seconds

    def end_outage(self, gpu: int | None) -> None:
        outage = self._known.pop(gpu, None)
        if outage is not None:
            seconds = round(time.monotonic() - outage.since, 1)
            self.record("gpu_back", {"gpu": gpu, "seconds": seconds})
