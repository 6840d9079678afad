"""The resolution for reading a run: as fine as it was sampled, but coarser for a long run.

A cell of a frame summarises all samples within it. A tick is a single sample: there may be many in
a cell, so that their number says how long a threshold was exceeded, whatever the width of a cell.
"""

from __future__ import annotations

import math

MOST_CELLS = 10_000
"""The most rows of a frame."""
RESOLUTIONS_SECONDS = (1, 2, 5, 10, 30, 60, 300, 900)
FINEST_MS = 1000 * RESOLUTIONS_SECONDS[0]
"""Runs that were sampled more often than this are read as if they were sampled so often."""
MOST_TICKS = 36_000
"""The most ticks of a series: two a second for 5 h."""
FINEST_TICK_SECONDS = 0.5
"""The time between two ticks as agents sample."""
COARSER_BY = 2.0
"""A step from a grid on which a run doesn't fit into memory to the next one."""
_HOUR_SECONDS = 3600.0


def resolution_seconds(sampled_ms: int, length_seconds: float) -> float:
    """Return the resolution: a second at the finest, hours for a run of months.

    Args:
        length_seconds: the time of which something is stored.
    """
    return _at_least(max(sampled_ms / 1000, length_seconds / MOST_CELLS))


def tick_seconds(resolution: float, length_seconds: float, most: float = MOST_TICKS) -> float:
    """Return the time between two ticks: never more than a cell."""
    wanted = length_seconds / most
    fits = FINEST_TICK_SECONDS if wanted <= FINEST_TICK_SECONDS else _at_least(wanted)
    return min(resolution, fits)


def coarsen(resolution: float, times: float) -> float:
    """Return the next resolution that is at least so many times as coarse."""
    return _at_least(resolution * times)


def _at_least(seconds: float) -> float:
    hours = math.ceil(seconds / _HOUR_SECONDS) * _HOUR_SECONDS
    return next((float(r) for r in RESOLUTIONS_SECONDS if r >= seconds), hours)
