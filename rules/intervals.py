"""Time intervals in which a condition holds: merging, subtracting and adding up."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from rules.grid import Floats
from rules.rule import Window


def intervals_where(
    flags: pd.Series[bool],
    resolution_seconds: float,
    at_least_seconds: float = 0.0,
    bridge_seconds: float = 0.0,
    gap_seconds: float = 0.0,
) -> list[Window]:
    """Return the intervals in which `flags` is true, each to the end of its last sample, in order.

    Args:
        flags: index in seconds; a missing sample is unknown and ends an interval.
        bridge_seconds: intervals this close together become one, whatever is between them.
        gap_seconds: intervals this close together become one if only unknown time is between them.
        at_least_seconds: shorter intervals are left out.
    """
    places = np.flatnonzero(flags.to_numpy(dtype=bool))
    if not len(places):
        return []
    times = flags.index.to_numpy(dtype=float)[places]
    only_unknown = np.diff(places) == 1
    allowed = np.where(only_unknown, max(gap_seconds, bridge_seconds), bridge_seconds)
    breaks = np.flatnonzero(np.diff(times) > resolution_seconds * 1.5 + allowed) + 1
    parts = np.split(times, breaks)
    intervals = [Window(float(part[0]), float(part[-1]) + resolution_seconds) for part in parts]
    return [w for w in intervals if w.end_seconds - w.start_seconds >= at_least_seconds - 1e-9]


def total_seconds(windows: list[Window]) -> float:
    """Return the length of windows that don't overlap."""
    return float(sum(window.end_seconds - window.start_seconds for window in windows))


def mean_within(
    series: pd.Series[float], window: Window, resolution_seconds: float
) -> float | None:
    """Return the mean of a series in a window; a sample at its edge counts in part. None without a
    sample.
    """
    times = series.index.to_numpy(dtype=float)
    start, end = window.start_seconds, window.end_seconds
    inside = slice(*np.searchsorted(times, [start - resolution_seconds, end]))
    starts = times[inside]
    parts = np.minimum(starts + resolution_seconds, end) - np.maximum(starts, start)
    parts = np.clip(parts, 0.0, None)
    whole = float(parts.sum())
    return float(series.to_numpy(dtype=float)[inside] @ parts) / whole if whole > 0 else None


def merge_windows(windows: Iterable[Window], slack_seconds: float = 1e-6) -> tuple[Window, ...]:
    """Merge windows of one entity that touch or overlap; sorted by entity, then start."""
    unions: list[Window] = []
    for window in sorted(windows, key=lambda w: (w.entity, w.start_seconds)):
        last = unions[-1] if unions else None
        joins = last is not None and last.entity == window.entity
        if last and joins and window.start_seconds <= last.end_seconds + slack_seconds:
            end = max(last.end_seconds, window.end_seconds)
            unions[-1] = Window(last.start_seconds, end, last.entity)
        else:
            unions.append(window)
    return tuple(unions)


def subtract_windows(windows: Iterable[Window], others: Iterable[Window]) -> list[Window]:
    """Return the windows without the parts that `others` cover."""
    rest = list(windows)
    for other in others:
        rest = [piece for window in rest for piece in _cut(window, other)]
    return rest


def covered_seconds(windows: Iterable[Window], span: Window) -> float:
    """Return the seconds of `span` that the windows cover, counting overlaps once."""
    return total_seconds([span]) - total_seconds(subtract_windows([span], windows))


def covered_parts(starts: Floats, ends: Floats, edges: Floats) -> Floats:
    """Return the seconds of each interval that spans cover.

    Args:
        edges: starts and ends of the spans, shape (n, 2), in order and apart; n is at least 1.
    """
    lengths = np.diff(edges, axis=1).ravel()
    before = np.column_stack([np.cumsum(lengths) - lengths, np.cumsum(lengths)]).ravel()
    until_end, until_start = (np.interp(at, edges.ravel(), before) for at in (ends, starts))
    return np.asarray(until_end - until_start)


def _cut(window: Window, other: Window) -> list[Window]:
    if other.end_seconds <= window.start_seconds or other.start_seconds >= window.end_seconds:
        return [window]
    parts = (
        Window(window.start_seconds, other.start_seconds, window.entity),
        Window(other.end_seconds, window.end_seconds, window.entity),
    )
    return [part for part in parts if part.end_seconds > part.start_seconds]
