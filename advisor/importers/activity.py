"""The common parts of traces of CPUs and GPUs: categories, nesting, and when a GPU was busy."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

import numpy as np

from advisor.importers.recording import Floats, Samples

CPU, KERNELS, COPIES, CALLS = "CPU operators", "GPU kernels", "GPU copies", "CUDA calls"
COMMUNICATION = "communication"
MOST_GPUS = 64
CELL_MS = 100
_MOST_CELLS = 1_000_000
"""28 hours of a trace."""
_COLLECTIVE = re.compile(r"nccl|rccl", re.IGNORECASE)


class TimedOperation(Protocol):
    """An operation; times in microseconds of one clock."""

    @property
    def start_us(self) -> float: ...

    @property
    def end_us(self) -> float: ...


T = TypeVar("T", bound=TimedOperation)


def is_collective(kernel: str) -> bool:
    """Return whether a kernel is one of NCCL's or RCCL's."""
    return _COLLECTIVE.search(kernel) is not None


def own_times(operations: Iterable[T]) -> Iterator[tuple[T, float, T | None]]:
    """Yield each operation of one thread, its time without those that it called, and its caller."""
    open_ones: list[tuple[T, float]] = []
    for each in sorted(operations, key=lambda each: (each.start_us, -each.end_us)):
        while open_ones and open_ones[-1][0].end_us <= each.start_us:
            yield _closed(open_ones)
        open_ones.append((each, each.end_us - each.start_us))
    while open_ones:
        yield _closed(open_ones)


def _closed(open_ones: list[tuple[T, float]]) -> tuple[T, float, T | None]:
    each, own_us = open_ones.pop()
    if not open_ones:
        return each, max(own_us, 0.0), None
    outer, left_us = open_ones[-1]
    inside_us = min(each.end_us, outer.end_us) - each.start_us
    open_ones[-1] = outer, left_us - inside_us
    return each, max(own_us, 0.0), outer


def union(start_us: Floats, end_us: Floats) -> tuple[Floats, Floats]:
    """Return the same time as intervals that rise and don't overlap: those of several streams
    do.
    """
    order = np.argsort(start_us, kind="stable")
    start, end = start_us[order], end_us[order]
    until = np.concatenate(([-np.inf], np.maximum.accumulate(end)))
    first = np.flatnonzero(start > until[:-1])
    return start[first], until[1:][np.concatenate((first[1:] - 1, [len(start) - 1]))]


def busy_samples(
    by_gpu: Mapping[int, tuple[Floats, Floats]],
    began_ms: int,
    ended_ms: int,
    entity: str = "gpu",
) -> Samples | None:
    """Return the share of each cell in which a kernel ran or memory was copied.

    Args:
        entity: what the numbers are of, as in the names of series.
        by_gpu: number -> `union` of what ran on it, in Unix microseconds.
    """
    count = (ended_ms - began_ms) // CELL_MS
    if not by_gpu or not 1 < count <= _MOST_CELLS:
        return None
    columns = {
        f"{entity}{gpu}.busy_pct": _busy_pct(
            start - began_ms * 1000.0, end - began_ms * 1000.0, count
        )
        for gpu, (start, end) in sorted(by_gpu.items())
    }
    return Samples(CELL_MS, began_ms + CELL_MS * np.arange(1, count + 1), columns)


def _busy_pct(start_us: Floats, end_us: Floats, count: int) -> Floats:
    edges = np.arange(count + 1) * CELL_MS * 1000.0
    # Busy time before each edge: whole intervals that began before it, less what lies beyond.
    before = np.concatenate(([0.0], np.cumsum(end_us - start_us)))
    begun = np.searchsorted(start_us, edges, side="right")
    beyond = np.clip(np.concatenate(([0.0], end_us))[begun] - edges, 0, None)
    busy: Floats = np.diff(before[begun] - beyond) / (CELL_MS * 1000.0) * 100
    return np.round(busy.clip(0, 100), 3).astype("float64")
