"""The use of each node's and GPU's time: seconds of each grid cell, by label."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rules.activity import cpu_pct, work_began
from rules.checkpoints import checkpoint_stalls
from rules.evidence import percentile
from rules.frame import GPU_IN_USE_PCT, NodeFrame, RunFrame
from rules.hangs import hangs
from rules.idle import tail_seconds
from rules.registry import all_rules
from rules.rule import Values, Window
from rules.step_gaps import unexplained_gaps
from rules.training_loop import phase_spans

Floats = NDArray[np.float64]
AS_RULES = ("epoch_gaps", "hung", "idle_tail", "unused_gpus")
"""Rules whose parameters also define their labels, so that findings and ledger agree."""
_NO_CELL = np.iinfo(np.int64).min
BUSY_PCT, LOW_SM_PCT, GOOD_SM_PCT = 80.0, 50.0, 80.0
STALL_SECONDS = 5.0
"""In so much time, waits and idle time of a GPU count as the same: its utilisation is a mean over
up to a second, and the shorter of the two is the stall (ours)."""


@dataclass(frozen=True)
class Grid:
    """Cells of equal width by their numbers, rising; cell 0 begins with the run."""

    cells: NDArray[np.int64]
    width_seconds: float

    @property
    def count(self) -> int:
        return len(self.cells)

    @property
    def start_seconds(self) -> float:
        return float(self.cells[0] * self.width_seconds) if len(self.cells) else 0.0

    def of_series(self, series: pd.Series[float] | None) -> Floats:
        """One value per cell; NaN: unknown."""
        values = np.full(self.count, np.nan)
        if series is None:
            return values
        places = np.round(series.index.to_numpy(dtype=float) / self.width_seconds).astype(np.int64)
        at = np.searchsorted(self.cells, places)
        inside = np.append(self.cells, _NO_CELL)[at] == places
        values[at[inside]] = series.to_numpy(dtype=float)[inside]
        return values

    def covered(self, windows: list[Window]) -> Floats:
        """Seconds of each cell covered by windows that don't overlap."""
        starts = np.array([w.start_seconds for w in windows])
        ends = np.array([w.end_seconds for w in windows])
        return self.spread(starts, ends, np.ones(len(windows)))

    def spread(self, starts: Floats, ends: Floats, density: Floats) -> Floats:
        """Seconds in each cell of stretches that count `density` a second."""
        low: Floats = self.cells.astype(np.float64) * self.width_seconds
        high: Floats = (self.cells + 1).astype(np.float64) * self.width_seconds
        found: Floats = _ramps(high, starts, density) - _ramps(low, starts, density)
        found -= _ramps(high, ends, density) - _ramps(low, ends, density)
        return np.clip(found, 0.0, None)


@dataclass(frozen=True)
class RunSpans:
    """What applies to all nodes."""

    values: Mapping[str, Values]
    """The parameter values of each of `AS_RULES`."""
    tail: list[Window]
    hung: list[Window]
    some_gpu_used: bool


def run_spans(frame: RunFrame, parameters: Mapping[str, Values]) -> RunSpans:
    """The idle tail of a run that has ended, its hangs, and whether any GPU was in use."""
    values = {rule: all_rules()[rule].values(parameters.get(rule)) for rule in AS_RULES}
    idle, hang = values["idle_tail"], values["hung"]
    limits = idle["idle_gpu_pct"], idle["idle_cores"]
    tail = tail_seconds(frame, *limits) if frame.final else None
    hung = hangs(frame, hang["idle_seconds"], hang["spin_seconds"]) or []
    used = any(node.first_use_seconds is not None for node in frame.nodes.values())
    spans = [Window(tail[0], frame.duration_seconds)] if tail and tail[1] > 0 else []
    return RunSpans(values, spans, hung, used)


def node_seconds(
    node: NodeFrame, frame: RunFrame, spans: RunSpans, grid: Grid
) -> dict[str, Floats]:
    """Seconds of each cell by label, for the labels that all GPUs of the node share. A label
    without any time is left out."""
    end, gap = frame.duration_seconds, spans.values["epoch_gaps"]
    saved = checkpoint_stalls(node, frame)
    gaps = unexplained_gaps(node, frame, gap["gap_seconds"], gap["median_steps"]) or []
    windows = {
        "initialise": [Window(min(grid.start_seconds, 0.0), _began(node, frame))],
        "idle_tail": spans.tail,
        "hung": spans.hung,
        "checkpoint": saved[0] if saved else [],
        "evaluation": phase_spans(node, "evaluate", end),
        "epoch_gap": gaps,
        "communication": phase_spans(node, "communication", end),
    }
    covered = {label: grid.covered(found) for label, found in windows.items() if found}
    return {"gap": _unknown(node, grid), "data_stall": _data_waits(node, grid), **covered}


def gpu_seconds(
    node: NodeFrame, number: int, frame: RunFrame, spans: RunSpans, grid: Grid
) -> dict[str, Floats]:
    """The labels that depend on the GPU, in seconds of each cell.

    `idle` is no label: a wait while the GPU works is no stall.
    """
    width = grid.width_seconds
    busy = grid.of_series(node.gpu_busy_pct(number))
    sm = grid.of_series(node.series(f"gpu{number}.sm_active_pct"))
    known = ~np.isnan(busy)
    low_sm = known & (np.nan_to_num(busy) >= BUSY_PCT) & (np.nan_to_num(sm, nan=100) < LOW_SM_PCT)
    unused = _is_unused(node, number, frame, spans)
    return {
        "unused_gpu": np.full(grid.count, width if unused else 0.0),
        "idle": np.where(known, 1 - np.clip(np.nan_to_num(busy), 0, 100) / 100, 1) * width,
        "throttled": _throttled(node, number, frame, grid) * width,
        "low_sm": np.where(low_sm, 1 - np.nan_to_num(sm) / GOOD_SM_PCT, 0.0) * width,
        "effective": np.where(known & (np.nan_to_num(busy) > GPU_IN_USE_PCT), width, 0.0),
    }


def stalled_seconds(waits: Floats, idle: Floats, grid: Grid) -> Floats:
    """The waits, as far as the GPU idles within the same `STALL_SECONDS`; seconds of each cell."""
    if not grid.count:
        return waits
    starts = np.round(grid.cells * grid.width_seconds, 6)
    first = np.flatnonzero(np.diff(starts // STALL_SECONDS, prepend=-np.inf))
    waited, idled = np.add.reduceat(waits, first), np.add.reduceat(idle, first)
    part = np.minimum(idled / np.where(waited > 0, waited, 1.0), 1.0)
    return np.asarray(waits * np.repeat(part, np.diff(first, append=grid.count)))


def cpu_seconds(node: NodeFrame, frame: RunFrame, grid: Grid) -> dict[str, Floats]:
    """For a node without GPUs: the part of its cores that worked. The rest of the cell is unused
    cores, as far as it has no other label."""
    share = grid.of_series(cpu_pct(node, frame.resolution_seconds)) / 100
    known = ~np.isnan(share)
    used = np.clip(np.nan_to_num(share), 0.0, 1.0)
    width = grid.width_seconds
    return {"effective": used * width, "unused_cores": np.where(known, width, 0.0)}


def _ramps(edges: Floats, starts: Floats, density: Floats) -> Floats:
    """At each edge: the sum of `density * (edge - start)` over the starts before it."""
    if not (starts[1:] >= starts[:-1]).all():
        order = np.argsort(starts)
        starts, density = starts[order], density[order]
    weights, moments = np.zeros(len(starts) + 1), np.zeros(len(starts) + 1)
    np.cumsum(density, out=weights[1:])
    np.cumsum(density * starts, out=moments[1:])
    before = np.searchsorted(starts, edges)
    ramps: Floats = weights[before] * edges - moments[before]
    return ramps


def _unknown(node: NodeFrame, grid: Grid) -> Floats:
    """Cells without samples of the node; none for a node without any series."""
    if not len(node.samples.columns):
        return np.zeros(grid.count)
    seen = grid.of_series(node.is_seen)
    return np.where(np.nan_to_num(seen) > 0, 0.0, grid.width_seconds)


def _began(node: NodeFrame, frame: RunFrame) -> float:
    """When the node's work began. A running node with GPUs that has not begun yet is starting
    up."""
    if work_began(node):
        return node.warm_up_end_seconds()
    is_starting = bool(node.allocated_gpus()) and not frame.final
    return frame.duration_seconds if is_starting else 0.0


def _data_waits(node: NodeFrame, grid: Grid) -> Floats:
    """The mean over the ranks. A single step waits at its beginning, summarised steps
    throughout."""
    ranks = max(node.steps["rank"].nunique(), 1)
    return grid.spread(*_waiting(node.steps)) / ranks


def _waiting(steps: pd.DataFrame) -> tuple[Floats, Floats, Floats]:
    """Starts and ends in s of the intervals with waits, and the share of waiting in each."""
    chosen = (steps["duration_seconds"] > 0) & (steps["data_wait_seconds"] > 0)
    columns = ("start_seconds", "duration_seconds", "data_wait_seconds", "count")
    start, duration, wait, count = (steps[name].to_numpy(dtype=float)[chosen] for name in columns)
    np.minimum(wait, duration, out=wait)
    single = ~(count > 1)
    length, share = np.multiply(duration, count, out=count), np.divide(wait, duration)
    length[single], share[single] = wait[single], 1.0
    return start, start + length, share


def _is_unused(node: NodeFrame, number: int, frame: RunFrame, spans: RunSpans) -> bool:
    highest = percentile(node.gpu_busy_pct(number), 99)
    if highest is None or highest > spans.values["unused_gpus"]["unused_pct"]:
        return False
    return frame.final or spans.some_gpu_used


def _throttled(node: NodeFrame, number: int, frame: RunFrame, grid: Grid) -> Floats:
    """The share of each cell in which heat or the power brake limited the clocks.

    Not the power cap: running at it is normal.
    """
    total = np.zeros(grid.count)
    for reason in ("thermal", "power_brake"):
        name = f"gpu{number}.throttled_{reason}_ns_total"
        nanoseconds = node.rate(name, frame.resolution_seconds)
        total += np.nan_to_num(grid.of_series(nanoseconds)) / 1e9
    return np.clip(total, 0.0, 1.0)
