"""The resolution for reading a run: as fine as it was sampled, but coarser for a long run."""

from __future__ import annotations

MOST_CELLS = 10_000
"""The most rows of a frame."""
RESOLUTIONS_SECONDS = (1, 2, 5, 10, 30, 60, 300, 900)
_COARSEST_SECONDS = 3600.0


def resolution_seconds(sampled_ms: int, length_seconds: float) -> float:
    """From a second to an hour."""
    at_least = max(sampled_ms / 1000, length_seconds / MOST_CELLS)
    return next((float(r) for r in RESOLUTIONS_SECONDS if r >= at_least), _COARSEST_SECONDS)
