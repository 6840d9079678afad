"""The agent's own CPU time and memory."""

from __future__ import annotations

import os
import time

from trimtab.sources.procfile import MEMORY_STEP_BYTES, ProcFile, Reading, round_bytes


class AgentUsage:
    """`agent.cpu_seconds_total` (all its threads) and `agent.rss_bytes`."""

    def __init__(self) -> None:
        self._statm = ProcFile("/proc/self/statm")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")

    def read(self) -> Reading:
        resident = int(self._statm.read().split()[1]) * self._page_bytes
        return {
            "agent.cpu_seconds_total": round(time.process_time(), 2),
            "agent.rss_bytes": round_bytes(resident, MEMORY_STEP_BYTES),
        }
