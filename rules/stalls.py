"""Waits for data that leave a GPU idle."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rules.checkpoints import checkpoint_stalls
from rules.frame import NodeFrame, RunFrame
from rules.grid import Floats, Grid, unseen_seconds
from rules.intervals import merge_windows
from rules.lost_steps import run_steps
from rules.training_loop import phase_spans


def wasted_wait_seconds(frame: RunFrame) -> float | None:
    """Return the time for which the loops wait and their used GPUs idle, as seconds of the whole
    run.

    Waits in steps that were done again are lost work, and an unused GPU would idle anyway. On a
    node without GPUs every wait counts. None if there are no samples of a node with steps.
    """
    return frame.once(_wasted_wait_seconds)


def _wasted_wait_seconds(frame: RunFrame) -> float | None:
    nodes = [node for node in frame.nodes.values() if node.training_ranks]
    if not nodes or not all(len(node.judged.index) for node in nodes):
        return None
    # To the microsecond: the last digit of a sum depends on when the work began.
    return round(float(np.mean([_wasted(node, frame) for node in nodes])), 6)


def _wasted(node: NodeFrame, frame: RunFrame) -> float:
    """Return the mean over the node's GPUs."""
    width = frame.resolution_seconds
    ticks = node.judged.index.to_numpy(dtype=float)
    grid = Grid(np.unique(np.round(ticks / width).astype(np.int64)), width)
    waits, gpus = data_waits(node, grid), node.allocated_gpus()
    taken = _not_waiting(node, frame, grid)
    if not gpus:
        return float(np.minimum(waits, np.clip(width - taken, 0.0, None)).sum())
    unused = {n for n in gpus if node.gpu_busy_pct(n) is not None} - set(node.used_gpus)
    stalled = 0.0
    for number in set(gpus) - unused:
        idle = idle_share(gpu_shares(node, number, grid)[0]) * width
        free = np.clip(idle - taken, 0.0, None)
        stalled += float(stalled_seconds(waits, free, grid).sum())
    return stalled / len(gpus)


def _not_waiting(node: NodeFrame, frame: RunFrame, grid: Grid) -> Floats:
    """Return the seconds of each cell that no wait for data explains, although the GPU may idle."""
    saved = checkpoint_stalls(node, frame)
    pauses = [*(saved[0] if saved else []), *phase_spans(node, "evaluate", frame.duration_seconds)]
    pauses += run_steps(frame).lost_seconds().get(node.key, [])
    return unseen_seconds(node, grid) + grid.covered_seconds(list(merge_windows(pauses)))


def idle_share(busy: Floats) -> Floats:
    """Return the share of each cell in which the GPU may have waited: all of it where that's
    unknown.
    """
    return 1.0 - np.nan_to_num(busy)


def gpu_shares(node: NodeFrame, number: int, grid: Grid) -> tuple[Floats, Floats]:
    """Return the share of each cell in which the GPU was busy, and the share of its most active
    unit: multiprocessors, tensor cores or memory; NaN: unknown. Memory at full speed leaves many of
    the multiprocessors waiting, and the GPU is not half empty.

    A GPU whose utilisation can't be read is as busy as its multiprocessors were active.
    """
    busy = grid.of_series(node.gpu_busy_pct(number)) / 100
    sm = grid.of_series(node.sm_active_pct(number)) / 100
    units = (node.series(f"gpu{number}.{name}_active_pct") for name in ("tensor", "dram"))
    most = np.fmax.reduce([sm, *(grid.of_series(unit) / 100 for unit in units)])
    active = np.where(np.isnan(sm), np.nan, most)
    return np.clip(np.where(np.isnan(busy), sm, busy), 0.0, 1.0), active


def stalled_seconds(waits: Floats, idle: Floats, grid: Grid) -> Floats:
    """Return the waits, as far as the GPU idles within the same `BLOCK_SECONDS`; seconds of each
    cell.

    They are where the GPU idles, so that the rest of each cell is its work and other idle time.
    """
    if not grid.count:
        return waits
    first, lengths = grid.blocks
    waited, idled = np.add.reduceat(waits, first), np.add.reduceat(idle, first)
    part = np.minimum(waited / np.where(idled > 0, idled, 1.0), 1.0)
    return np.asarray(idle * np.repeat(part, lengths))


def data_waits(node: NodeFrame, grid: Grid) -> Floats:
    """Return the mean wait over the ranks. A single step waits at its beginning, summarised steps
    throughout.
    """
    ranks = max(len(pd.unique(node.step_ranks)), 1)
    return grid.spread(*_waiting(node)) / ranks


def _waiting(node: NodeFrame) -> tuple[Floats, Floats, Floats]:
    """Starts and ends in s of the intervals with waits, and the share of waiting in each."""
    chosen = node.is_timed & (node.step_column("data_wait_seconds") > 0)
    columns = ("start_seconds", "duration_seconds", "data_wait_seconds", "count")
    start, duration, wait, count = (node.step_column(name)[chosen] for name in columns)
    np.minimum(wait, duration, out=wait)
    single = ~(count > 1)
    length, share = np.multiply(duration, count, out=count), np.divide(wait, duration)
    length[single], share[single] = wait[single], 1.0
    return start, start + length, share
