"""When a run is idle, by the GPUs of all nodes or, without GPUs, by the run's own cores."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rules.activity import busiest_gpu_pct, cores, own_cores
from rules.frame import NodeFrame, RunFrame
from rules.processes import are_cores_own

BLIP_SECONDS = 10.0
"""Shorter activity doesn't end idle time, and shorter idle time doesn't count."""
BACKGROUND_SHARE = 0.02
"""Background activity as a share of all cores, if the run's own use isn't known."""
BY_MACHINE = ", judged by the whole machine, because its own processes were not seen"
"""For findings; see `is_by_machine`."""


def mostly(flags: pd.Series[bool]) -> pd.Series[bool]:
    """Whether the flag is set for most of the known samples within 5 s before and after.

    Removes blips and keeps edges in place, like a running median.
    """
    times = flags.index.to_numpy(dtype=float)
    first = np.searchsorted(times, times - BLIP_SECONDS / 2 - 1e-6)
    end = np.searchsorted(times, times + BLIP_SECONDS / 2 + 1e-6)
    held = np.concatenate([[0], np.cumsum(flags.to_numpy(dtype=bool))])
    return pd.Series(2 * (held[end] - held[first]) > end - first, index=flags.index)


def has_gpus(frame: RunFrame) -> bool:
    return any(node.allocated_gpus() for node in frame.nodes.values())


def gpus_idle(frame: RunFrame, idle_pct: float) -> pd.Series[bool] | None:
    """Whether all GPUs of all nodes are idle, at the ticks at which all are known.

    None: there are no GPUs, or those of a node are unknown.
    """
    with_gpus = [node for node in frame.nodes.values() if node.allocated_gpus()]
    busy = [busiest_gpu_pct(node) for node in with_gpus]
    known = [series for series in busy if series is not None]
    if not known or len(known) < len(busy):
        return None
    highest = known[0] if len(known) == 1 else pd.concat(known, axis=1).dropna().max(axis=1)
    return mostly(highest <= idle_pct)


def is_by_machine(frame: RunFrame) -> bool:
    """On some node `cores_idle` counts the machine's cores: the run's own were not seen."""
    return any(not are_cores_own(node) for node in frame.nodes.values())


def cores_idle(frame: RunFrame, idle_cores: float) -> pd.Series[bool] | None:
    """Whether each node uses at most `idle_cores`, at the ticks at which all are known."""
    known = [
        mostly(busy <= _allowed_cores(node, idle_cores))
        for node in frame.nodes.values()
        if (busy := own_cores(node, frame.resolution_seconds)) is not None
    ]
    if not known or len(known) < len(frame.nodes):
        return None
    if len(known) == 1:
        return known[0]
    together = pd.concat(known, axis=1).dropna()
    return together.astype(bool).all(axis=1)


def idle(frame: RunFrame, gpu_pct: float, idle_cores: float) -> pd.Series[bool] | None:
    """Whether the run's GPUs are idle; without GPUs, whether its cores are."""
    if has_gpus(frame):
        return gpus_idle(frame, gpu_pct)
    return cores_idle(frame, idle_cores)


def tail_seconds(frame: RunFrame, gpu_pct: float, idle_cores: float) -> tuple[float, float] | None:
    """When the last work ended, and the known idle seconds from there to the run's end.

    Short gaps between idle ticks count as idle; longer ones are unknown.

    None: activity is unknown, there was no work, or most of the time after it is unknown.
    """
    resting = idle(frame, gpu_pct, idle_cores)
    if resting is None or resting.all():
        return None
    busy = resting.index[~resting.to_numpy(dtype=bool)]
    begin = float(busy[-1]) + frame.resolution_seconds
    seconds = _known_seconds(resting.index[resting.index >= begin], frame.resolution_seconds)
    if seconds < 0.5 * (frame.duration_seconds - begin):
        return None
    return begin, seconds


def _known_seconds(ticks: pd.Index[float], resolution_seconds: float) -> float:
    """The time that these ticks cover, including gaps that are no longer than a blip."""
    spans = np.append(np.diff(ticks.to_numpy(dtype=float)), resolution_seconds)
    known = np.where(spans <= BLIP_SECONDS, spans, resolution_seconds)
    return float(known.sum()) if len(ticks) else 0.0


def _allowed_cores(node: NodeFrame, idle_cores: float) -> float:
    if are_cores_own(node):
        return idle_cores
    return max(idle_cores, BACKGROUND_SHARE * cores(node))
