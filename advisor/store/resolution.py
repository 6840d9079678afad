"""The resolution for reading a run: as fine as it was sampled, but coarser for a long run."""

from __future__ import annotations

import math

MOST_CELLS = 10_000
"""The most rows of a frame."""
RESOLUTIONS_SECONDS = (1, 2, 5, 10, 30, 60, 300, 900)
_HOUR_SECONDS = 3600.0


def resolution_seconds(sampled_ms: int, length_seconds: float) -> float:
    """A second at the finest; hours for a run of months.

    Args:
        length_seconds: of the time of which something is stored.
    """
    return _at_least(max(sampled_ms / 1000, length_seconds / MOST_CELLS))


def coarser(resolution: float, times: float) -> float:
    """The next resolution that is at least so many times as coarse."""
    return _at_least(resolution * times)


def _at_least(seconds: float) -> float:
    hours = math.ceil(seconds / _HOUR_SECONDS) * _HOUR_SECONDS
    return next((float(r) for r in RESOLUTIONS_SECONDS if r >= seconds), hours)
