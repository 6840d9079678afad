"""The stretches of a run of which anything is stored: only they are read, and only they have cells.

An agent may be silent for months (a suspended machine, a clock that was wrong): that time is known
to be a gap from the index alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import numpy as np

from advisor.store.grid import SampleGrid
from advisor.store.index import HOUR_MS, NodeHistory, to_ms

SLACK_MS = 600_000
"""The time kept around each stored hour: a sample may lie a little outside of what its segment
claims."""
Span = tuple[int, int]


def grid(
    nodes: Sequence[NodeHistory], start: datetime, end: datetime, resolution_seconds: float
) -> SampleGrid:
    """Return the cells of [start, end) in which a node may have something."""
    width_ms = resolution_seconds * 1000
    count = max(int(np.ceil(round((end - start).total_seconds() / resolution_seconds, 9))), 1)
    parts = [np.zeros(0, dtype=np.int64)]
    begin = 0
    for low_ms, high_ms in _stored(nodes, start, end):
        low = max(int((low_ms - to_ms(start)) // width_ms), begin)
        begin = min(int(-(-(high_ms - to_ms(start)) // width_ms)), count)
        parts.append(np.arange(low, begin))
    return SampleGrid(to_ms(start), width_ms, np.concatenate(parts))


def stored_seconds(nodes: Sequence[NodeHistory], start: datetime, end: datetime) -> float:
    """Return how much of [start, end] the stretches cover."""
    low, high = to_ms(start), to_ms(end)
    spans = _stored(nodes, start, end)
    return sum(max(min(e, high) - max(s, low), 0) for s, e in spans) / 1000


def _stored(nodes: Sequence[NodeHistory], start: datetime, end: datetime) -> list[Span]:
    """Return the stretches that reach into [start, end], in order, in Unix milliseconds."""
    hours = sorted({hour for node in nodes for hour in _hours(node)})
    low, high = to_ms(start), to_ms(end)
    found: list[Span] = []
    for hour in hours:
        first, last = hour - SLACK_MS, hour + HOUR_MS + SLACK_MS
        if last <= low or first > high:
            continue
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found


def _hours(node: NodeHistory) -> Iterable[int]:
    for ref in node.segments:
        yield from ref.hours_ms
    for chunk in node.chunks:
        yield chunk.hour_ms
