"""When a run hangs: its work has begun, and then nothing makes progress."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rules.activity import used_gpus, work_began
from rules.frame import NodeFrame, RunFrame
from rules.idle import cores_idle, gpus_idle, has_gpus, mostly
from rules.intervals import intervals_where, without
from rules.rule import Window
from rules.training_loop import (
    phase_spans,
    weighted_median,
)

SPIN_BUSY_PCT = 95.0
SPIN_POWER_SHARE = 0.15
LEAST_POWER_SPAN_WATTS = 50.0
STEPS_WITHOUT_ONE = 10.0
GAP_SECONDS = 120.0
"""Unknown time up to this long may be part of a hang; several nodes have several gaps."""
PHASES = ("initialise", "checkpoint", "finalise")


def hangs(frame: RunFrame, idle_seconds: float, spin_seconds: float) -> list[Window] | None:
    """Time in which nothing works during the run, or the GPUs spin at idle power.

    No step ends during a hang, and no recorded start, checkpoint or finish explains it. Idle time
    up to the end of a run that ended well is its idle tail, not a hang. None: not known.
    """
    began = [n.warm_up_end_seconds() for n in frame.nodes.values() if work_began(n)]
    if not began:
        return None
    resting = _resting(frame)
    spinning = _spinning(frame)
    if resting is None and spinning is None:
        return None
    candidates: list[Window] = []
    kinds = ((resting, max(idle_seconds, _long_for_steps(frame))), (spinning, spin_seconds))
    for flags, least in kinds:
        if flags is not None:
            flags = _but_for_steps(frame, flags[flags.index >= min(began)])
            long = intervals_where(flags, frame.resolution_seconds, least, gap_seconds=GAP_SECONDS)
            candidates += [w for w in long if not _is_tail(frame, w, flags)]
    shortest = min(idle_seconds, spin_seconds)
    return [w for w in _unexplained(frame, candidates) if _is_hang(frame, w, shortest)]


def ended_well(frame: RunFrame) -> bool:
    """Its session finished, or its process exited with 0."""
    for node in frame.nodes.values():
        ends = node.events[node.events["kind"].isin(["session_end", "process_exit"])]
        for data in ends["data"]:
            state, code = data.get("state"), data.get("exit_code")
            if state not in (None, "finished") or (isinstance(code, int) and code != 0):
                return False
    return True


def _resting(frame: RunFrame) -> pd.Series[bool] | None:
    """GPUs idle and at most 1.5 cores busy: one thread may wait in a loop."""
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
    """On every node, every used GPU is busy but draws little more than idle power."""
    parts = [part for n in frame.nodes.values() if (part := _node_spins(n, frame)) is not None]
    if not parts:
        return None
    return pd.concat(parts, axis=1).dropna().astype(bool).all(axis=1)


def _node_spins(node: NodeFrame, frame: RunFrame) -> pd.Series[bool] | None:
    spins = []
    for number in used_gpus(node):
        busy, power = node.gpu_busy_pct(number), node.series(f"gpu{number}.power_watts")
        if busy is None or power is None:
            return None
        low, high = np.percentile(power, [1, 99])
        if high - low < LEAST_POWER_SPAN_WATTS:
            return None
        near_idle = mostly(power <= low + SPIN_POWER_SHARE * (high - low))
        is_busy = mostly(busy >= SPIN_BUSY_PCT)
        spins.append(near_idle & is_busy.reindex(near_idle.index, fill_value=False))
    return pd.concat(spins, axis=1).all(axis=1) if spins else None


def _long_for_steps(frame: RunFrame) -> float:
    steps = frame.steps
    train = steps[(steps["phase"] == "train") & (steps["duration_seconds"] > 0)]
    if not len(train):
        return 0.0
    weights = np.nan_to_num(train["count"].to_numpy(dtype=float), nan=1.0)
    return STEPS_WITHOUT_ONE * weighted_median(
        train["duration_seconds"].to_numpy(dtype=float), weights
    )


def _unexplained(frame: RunFrame, windows: list[Window]) -> list[Window]:
    """Without phases that are normally idle; evaluation is one of these if the cores are
    unknown."""
    phases = PHASES if cores_idle(frame, 1.5) is not None else (*PHASES, "evaluate")
    for node in frame.nodes.values():
        for phase in phases:
            windows = without(windows, phase_spans(node, phase, frame.duration_seconds))
    return windows


def _is_tail(frame: RunFrame, window: Window, flags: pd.Series[bool]) -> bool:
    """Whether the run ended well, and nothing is known to have happened after the window."""
    return (
        bool(flags[flags.index >= window.end_seconds].all()) and frame.final and ended_well(frame)
    )


def _but_for_steps(frame: RunFrame, flags: pd.Series[bool]) -> pd.Series[bool]:
    """Without the cells in which a step ended, because something worked then."""
    ended = np.ceil(_step_ends(frame) / frame.resolution_seconds - 1e-6) - 1
    cells = np.floor(flags.index.to_numpy(dtype=float) / frame.resolution_seconds + 1e-6)
    return flags & ~np.isin(cells, ended)


def _step_ends(frame: RunFrame) -> NDArray[np.float64]:
    steps = frame.steps
    ends = steps["start_seconds"] + steps["duration_seconds"] * steps["count"].fillna(1)
    return ends.to_numpy(dtype=float)


def _is_hang(frame: RunFrame, window: Window, least_seconds: float) -> bool:
    """Whether it is long enough, and no step ended in it."""
    if window.end_seconds - window.start_seconds < least_seconds:
        return False
    edge = max(frame.resolution_seconds, 1.0)
    ends = _step_ends(frame)
    inside = (ends > window.start_seconds + edge) & (ends < window.end_seconds - edge)
    return not bool(inside.any())
