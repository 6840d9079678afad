"""How fine a run is read: as fine as it was sampled, and coarse enough for a long run."""

from __future__ import annotations

MOST_CELLS = 10_000
"""Rows of a frame at most."""
RESOLUTIONS_SECONDS = (1, 2, 5, 10, 30, 60, 300, 900)
_COARSEST_SECONDS = 3600.0


def resolution_seconds(sampled_ms: int, length_seconds: float) -> float:
    """A second at the finest, an hour at the coarsest."""
    at_least = max(sampled_ms / 1000, length_seconds / MOST_CELLS)
    return next((float(r) for r in RESOLUTIONS_SECONDS if r >= at_least), _COARSEST_SECONDS)
