"""Spells: how long something lasted, without flickering at a threshold or guessing in a gap."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rules.rule import Window

Flags = NDArray[np.bool_]


def held(values: pd.Series[float], raise_at: float, clear_at: float) -> pd.Series[bool]:
    """True from where a value reaches `raise_at` until it falls below `clear_at` (hysteresis).

    With `raise_at` below `clear_at` it is the other way round: true from where a value falls to
    `raise_at` until it rises above `clear_at`. Starts false.
    """
    numbers = values.to_numpy(dtype=float)
    if raise_at >= clear_at:
        state = np.where(numbers >= raise_at, 1.0, np.where(numbers < clear_at, 0.0, np.nan))
    else:
        state = np.where(numbers <= raise_at, 1.0, np.where(numbers > clear_at, 0.0, np.nan))
    kept = pd.Series(state, index=values.index).ffill().fillna(0.0)
    return kept == 1.0


def spells(
    flags: pd.Series[bool],
    resolution_seconds: float,
    at_least_seconds: float = 0.0,
    bridge_seconds: float = 0.0,
    gap_seconds: float = 0.0,
) -> list[Window]:
    """The stretches in which `flags` is true, each to the end of its last sample, in order.

    Args:
        flags: index in seconds; what is missing from it is unknown, and ends a spell.
        bridge_seconds: two spells this near to each other are one, whatever was between them.
        gap_seconds: two spells this near to each other are one, if only unknown time is between.
        at_least_seconds: shorter ones are left out.
    """
    places = np.flatnonzero(flags.to_numpy(dtype=bool))
    if not len(places):
        return []
    times = flags.index.to_numpy(dtype=float)[places]
    only_unknown = np.diff(places) == 1
    allowed = np.where(only_unknown, max(gap_seconds, bridge_seconds), bridge_seconds)
    breaks = np.flatnonzero(np.diff(times) > resolution_seconds * 1.5 + allowed) + 1
    parts = np.split(times, breaks)
    found = [Window(float(part[0]), float(part[-1]) + resolution_seconds) for part in parts]
    return [w for w in found if w.end_seconds - w.start_seconds >= at_least_seconds - 1e-9]


def inside(times: NDArray[np.float64], windows: list[Window]) -> Flags:
    """For each time whether a window holds it."""
    found = np.zeros(len(times), dtype=bool)
    for window in windows:
        found |= (times >= window.start_seconds) & (times < window.end_seconds)
    return found


def total_seconds(windows: list[Window]) -> float:
    """The length of windows that don't overlap."""
    return float(sum(window.end_seconds - window.start_seconds for window in windows))
