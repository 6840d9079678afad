"""Durations as text."""

from __future__ import annotations


def display_seconds(seconds: float) -> str:
    """Return the time with at most three digits: `12 ms`, `4.25 s`, `41 s`, `12.4 min`, `5.33
    h`.
    """
    if 0 < seconds < 0.9995:
        return f"{1000 * seconds:.3g} ms"
    if 0 < seconds < 9.995:
        return f"{seconds:.2f} s"
    if seconds < 599.5:
        return f"{seconds:.0f} s"
    if seconds < 5997:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.{2 if seconds < 35_982 else 1}f} h"
