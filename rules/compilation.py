"""The time that compilation takes, and what the first steps take above the later ones.

Only the framework tells compilation (`compile` events). The first steps of a process take longer
than those after them for other reasons too: kernels are tuned, memory is allocated, connections are
opened. What they take above the later level is of no known cause.

A step counts as above the level from `ABOVE_LEVEL` times its length and `LEAST_SECONDS` more: less
is noise (ours). The level is the median of the steps after the first `FIRST_STEPS`, without their
wait for data; at least `FEWEST_LATER` of them must be known.
"""

from __future__ import annotations

import numpy as np

from rules.frame import NodeFrame
from rules.global_steps import first_rank, processes_of
from rules.grid import Floats
from rules.intervals import merge_windows
from rules.rule import Window
from rules.training_loop import events_of, in_order, seconds_of, training_columns, weighted_median

FIRST_STEPS, FEWEST_LATER = 20, 10
ABOVE_LEVEL, LEAST_SECONDS = 1.5, 0.5


def compile_spans(node: NodeFrame) -> list[Window]:
    """Return the node's time in compilation, as its lowest rank told it."""
    rank = first_rank(node)
    told = (
        (at, seconds_of(data.get("seconds")))
        for at, data in events_of(node, "compile")
        if data.get("rank") == rank
    )
    return list(merge_windows([Window(max(at - took, 0.0), at) for at, took in told if took > 0]))


def first_step_spans(node: NodeFrame) -> list[Window]:
    """Return what the first steps of each process take above the later level, by the node's lowest
    rank; empty where it isn't known.
    """
    rank = first_rank(node)
    starts, lengths, waits, counts = _steps(node, rank)
    level = _level(lengths - waits, counts)
    if level is None:
        return []
    found: list[Window] = []
    began = [restart.at_seconds for restart, _ in processes_of(node, rank)[1:]]
    for first in [0, *np.searchsorted(starts, began)]:
        found += _first_steps(slice(first, first + FIRST_STEPS), level, starts, lengths, waits)
    return list(merge_windows(found))


def _steps(node: NodeFrame, rank: int | None) -> tuple[Floats, Floats, Floats, Floats]:
    """Start, length, wait for data and number of the rank's training steps; those that are
    summarised have their mean."""
    names = ("start_seconds", "duration_seconds", "data_wait_seconds", "count")
    columns = training_columns(node, rank, *names)
    timed = columns[1] > 0
    if not timed.all():
        columns = tuple(column[timed] for column in columns)
    start, length, wait, count = in_order(*columns)
    np.nan_to_num(wait, copy=False).clip(0, length, out=wait)
    return start, length, wait, np.nan_to_num(count, copy=False, nan=1.0)


def _level(lengths: Floats, counts: Floats) -> float | None:
    later = (
        slice(FIRST_STEPS, None) if len(lengths) >= FIRST_STEPS + FEWEST_LATER else slice(1, None)
    )
    if counts[later].sum() < FEWEST_LATER:
        return None
    return weighted_median(lengths[later], counts[later])


def _first_steps(
    chosen: slice, level: float, starts: Floats, lengths: Floats, waits: Floats
) -> list[Window]:
    """Return what the steps take above the level, from the first step to the first that is at the
    level.
    """
    found: list[Window] = []
    table = (column[chosen] for column in (starts, lengths, waits))
    for start, length, wait in zip(*table, strict=True):
        above = length - wait - level
        if above < max((ABOVE_LEVEL - 1) * level, LEAST_SECONDS):
            break
        found.append(Window(float(start + wait), float(start + wait + above)))
    return found
