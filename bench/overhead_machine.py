"""The machine's own cost of waking a process that sleeps between its ticks.

Some virtual machines give idle memory back to the host. Touching a page again then costs an exit to
the host, which counts as the process's time. An agent sleeps most of the time, so it pays this at
every tick, and its CPU seconds mostly measure the machine.
"""

from __future__ import annotations

import statistics
import time

PAGES, PAGE_BYTES = 2000, 4096
REST_SECONDS = 0.5
MUCH = 5


class RestedMemory:
    """Measured rarely enough to leave the caches to the measured processes."""

    def __init__(self) -> None:
        self._memory = bytearray(PAGES * PAGE_BYTES)
        self._at_once_us: list[float] = []
        self._rested_us: list[float] = []

    def look(self) -> None:
        """Takes half a second, but only milliseconds of CPU time."""
        self._touch_us()
        self._at_once_us.append(self._touch_us())
        time.sleep(REST_SECONDS)
        self._rested_us.append(self._touch_us())

    def words(self) -> str:
        at_once, rested = map(statistics.median, (self._at_once_us, self._rested_us))
        times = (
            f"touching a page takes {at_once:.1f} us, {rested:.1f} us after half a second's rest"
        )
        if rested < MUCH * at_once:
            return times
        return f"{times}: this machine loses memory that rests; ratios hold, seconds of CPU don't"

    def _touch_us(self) -> float:
        began = time.process_time()
        for place in range(0, len(self._memory), PAGE_BYTES):
            self._memory[place] = 1
        return 1e6 * (time.process_time() - began) / PAGES
