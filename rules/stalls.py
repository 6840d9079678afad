"""Stretches in which a run that had begun to work makes no progress: hangs and gaps."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rules.activity import used_gpu_pct, used_gpus, work_began
from rules.checkpoints import checkpoint_spans
from rules.frame import GPU_IN_USE_PCT, NodeFrame, RunFrame
from rules.idle import cores_idle, gpus_idle, has_gpus, smoothed
from rules.intervals import intervals_where, without
from rules.rule import Window
from rules.training_loop import (
    phase_spans,
    step_gaps,
    weighted_median,
)

SPIN_BUSY_PCT = 95.0
SPIN_POWER_SHARE = 0.15
LEAST_POWER_SPAN_WATTS = 50.0
STEPS_WITHOUT_ONE = 10.0
GAP_SECONDS = 120.0
"""Unknown time so long may be part of a stretch; several nodes have several gaps."""
PHASES = ("initialise", "checkpoint", "finalise")


def hangs(frame: RunFrame, idle_seconds: float, spin_seconds: float) -> list[Window] | None:
    """Mid-run stretches in which nothing works, or the GPUs spin at idle power.

    No step ends in them, and no start, checkpoint or end was told. What lasts to the end of a run
    that ended well is its idle tail. None: it can't be told.
    """
    began = [n.warm_up_end_seconds() for n in frame.nodes.values() if work_began(n)]
    if not began:
        return None
    resting = _resting(frame)
    spinning = _spinning(frame)
    if resting is None and spinning is None:
        return None
    found: list[Window] = []
    kinds = ((resting, max(idle_seconds, _long_for_steps(frame))), (spinning, spin_seconds))
    for flags, least in kinds:
        if flags is not None:
            flags = _but_for_steps(frame, flags[flags.index >= min(began)])
            long = intervals_where(flags, frame.resolution_seconds, least, gap_seconds=GAP_SECONDS)
            found += [w for w in long if not _is_tail(frame, w, flags)]
    shortest = min(idle_seconds, spin_seconds)
    return [w for w in _untold(frame, found) if _is_hang(frame, w, shortest)]


def ended_well(frame: RunFrame) -> bool:
    """Its session told that it finished, or its process that it exited with 0."""
    for node in frame.nodes.values():
        ends = node.events[node.events["kind"].isin(["session_end", "process_exit"])]
        for data in ends["data"]:
            state, code = data.get("state"), data.get("exit_code")
            if state not in (None, "finished") or (isinstance(code, int) and code != 0):
                return False
    return True


def untold_gaps(
    node: NodeFrame, frame: RunFrame, gap_seconds: float, median_steps: float
) -> list[Window] | None:
    """Between the node's steps, without what was told of them, and with idle GPUs."""
    found = step_gaps(node, gap_seconds, median_steps)
    if found is None:
        return None
    gaps, median = found
    end = frame.duration_seconds
    told = [*phase_spans(node, "evaluate", end), *checkpoint_spans(node, end)]
    rest = without(gaps, told)
    least = max(gap_seconds, median_steps * median) - 1e-9
    gpu = used_gpu_pct(node)
    return [
        w
        for w in rest
        if w.end_seconds - w.start_seconds >= least and _idles(gpu, w, frame.resolution_seconds)
    ]


def _resting(frame: RunFrame) -> pd.Series[bool] | None:
    """GPUs idle and at most a core and a half at work: one thread may wait in a loop."""
    if not has_gpus(frame):
        return cores_idle(frame, 0.1) if len(frame.steps) else None
    gpus, cores = gpus_idle(frame, 1.0), cores_idle(frame, 1.5)
    if gpus is None:
        return None
    if cores is None:
        return gpus
    both = pd.concat([gpus, cores], axis=1).dropna()
    return both.astype(bool).all(axis=1)


def _spinning(frame: RunFrame) -> pd.Series[bool] | None:
    """Every GPU in use is busy and draws hardly more than when it idles, on every node."""
    parts = [part for n in frame.nodes.values() if (part := _node_spins(n, frame)) is not None]
    if not parts:
        return None
    return pd.concat(parts, axis=1).dropna().astype(bool).all(axis=1)


def _node_spins(node: NodeFrame, frame: RunFrame) -> pd.Series[bool] | None:
    found = []
    for number in used_gpus(node):
        busy, power = node.gpu_busy_pct(number), node.series(f"gpu{number}.power_watts")
        if busy is None or power is None:
            return None
        low, high = np.percentile(power, [1, 99])
        if high - low < LEAST_POWER_SPAN_WATTS:
            return None
        drawn = smoothed(power, frame.resolution_seconds)
        near_idle = drawn <= low + SPIN_POWER_SHARE * (high - low)
        is_busy = smoothed(busy, frame.resolution_seconds) >= SPIN_BUSY_PCT
        found.append(near_idle & is_busy.reindex(near_idle.index, fill_value=False))
    return pd.concat(found, axis=1).all(axis=1) if found else None


def _long_for_steps(frame: RunFrame) -> float:
    steps = frame.steps
    train = steps[(steps["phase"] == "train") & (steps["duration_seconds"] > 0)]
    if not len(train):
        return 0.0
    weights = np.nan_to_num(train["count"].to_numpy(dtype=float), nan=1.0)
    return STEPS_WITHOUT_ONE * weighted_median(
        train["duration_seconds"].to_numpy(dtype=float), weights
    )


def _untold(frame: RunFrame, windows: list[Window]) -> list[Window]:
    """Without the phases that may rest by nature; an evaluation may, if its cores are unknown."""
    phases = PHASES if cores_idle(frame, 1.5) is not None else (*PHASES, "evaluate")
    for node in frame.nodes.values():
        for phase in phases:
            windows = without(windows, phase_spans(node, phase, frame.duration_seconds))
    return windows


def _is_tail(frame: RunFrame, window: Window, flags: pd.Series[bool]) -> bool:
    """Nothing else is known to have happened after it in a run that ended well."""
    return (
        bool(flags[flags.index >= window.end_seconds].all()) and frame.final and ended_well(frame)
    )


def _but_for_steps(frame: RunFrame, flags: pd.Series[bool]) -> pd.Series[bool]:
    """Where a step ended something worked, however little of the machine it took."""
    ended = np.ceil(_step_ends(frame) / frame.resolution_seconds - 1e-6) - 1
    cells = np.floor(flags.index.to_numpy(dtype=float) / frame.resolution_seconds + 1e-6)
    return flags & ~np.isin(cells, ended)


def _step_ends(frame: RunFrame) -> NDArray[np.float64]:
    steps = frame.steps
    ends = steps["start_seconds"] + steps["duration_seconds"] * steps["count"].fillna(1)
    return ends.to_numpy(dtype=float)


def _is_hang(frame: RunFrame, window: Window, least_seconds: float) -> bool:
    """It is long enough, and no step ended in it."""
    if window.end_seconds - window.start_seconds < least_seconds:
        return False
    edge = max(frame.resolution_seconds, 1.0)
    ends = _step_ends(frame)
    inside = (ends > window.start_seconds + edge) & (ends < window.end_seconds - edge)
    return not bool(inside.any())


def _idles(gpu: pd.Series[float] | None, window: Window, resolution_seconds: float) -> bool:
    """By the samples that lie wholly in the window; without any, yes."""
    if gpu is None:
        return True
    last = window.end_seconds - resolution_seconds
    inside = gpu[(gpu.index >= window.start_seconds) & (gpu.index <= last)]
    return not len(inside) or float(inside.mean()) < GPU_IN_USE_PCT
