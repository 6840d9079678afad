"""Finds when a run is idle, by the GPUs of all nodes or, without GPUs, by the run's own cores."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from rules.activity import busiest_gpu_pct, cores
from rules.evidence import percentile
from rules.frame import NodeFrame, RunFrame
from rules.processes import are_cores_own
from rules.starvation import wanted_cores
from rules.told import last_told_seconds

BLIP_SECONDS = 10.0
"""Shorter activity doesn't end idle time, and shorter idle time doesn't count."""
REST_CORES = 0.1
"""Cores of a process that rests (ours)."""
BACKGROUND_SHARE = 0.02
"""Background activity as a share of all cores, if the run's own use isn't known."""
BY_MACHINE = ", judged by the whole machine, because its own processes were not seen"
"""The words for findings; see `is_by_machine`."""


def is_mostly_set(flags: pd.Series[bool]) -> pd.Series[bool]:
    """Return whether the flag is set for most of the known samples within 5 s before and after.

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
    """Return whether all GPUs of all nodes are idle, at the ticks at which all are known.

    None if there are no GPUs, or those of a node are unknown.
    """
    with_gpus = [node for node in frame.nodes.values() if node.allocated_gpus()]
    busy = [busiest_gpu_pct(node) for node in with_gpus]
    known = [series for series in busy if series is not None]
    if not known or len(known) < len(busy):
        return None
    highest = known[0] if len(known) == 1 else pd.concat(known, axis=1).dropna().max(axis=1)
    return is_mostly_set(highest <= idle_pct)


def is_by_machine(frame: RunFrame) -> bool:
    """Return whether `cores_idle` counts the machine's cores on some node: the run's own were not
    seen.
    """
    return any(not are_cores_own(node) for node in frame.nodes.values())


def cores_idle(frame: RunFrame, most_cores: Callable[[NodeFrame], float]) -> pd.Series[bool] | None:
    """Return whether each node wants at most so many cores, at the ticks at which all are known."""
    step = frame.resolution_seconds
    known = [
        is_mostly_set(wanted <= _allowed_cores(node, most_cores(node)))
        for node in frame.nodes.values()
        if (wanted := wanted_cores(node, step)) is not None
    ]
    if not known or len(known) < len(frame.nodes):
        return None
    if len(known) == 1:
        return known[0]
    together = pd.concat(known, axis=1).dropna()
    return together.astype(bool).all(axis=1)


def is_idle(frame: RunFrame, gpu_pct: float, cores_pct: float) -> pd.Series[bool] | None:
    """Return whether the run's GPUs are idle; without GPUs, whether its cores are.

    Args:
        cores_pct: the percent of the cores that each node wants at its 95th percentile.
    """
    if has_gpus(frame):
        return gpus_idle(frame, gpu_pct)

    def most_cores(node: NodeFrame) -> float:
        usual = percentile(wanted_cores(node, frame.resolution_seconds), 95) or 0.0
        rest = REST_CORES * ranks(node)
        return rest if usual <= rest else min(cores_pct / 100 * usual, rest)

    return cores_idle(frame, most_cores)


def ranks(node: NodeFrame) -> int:
    """Return the training processes of the node: as reported, else one a GPU."""
    return max(node.training_ranks, len(node.allocated_gpus()), 1)


def tail_seconds(frame: RunFrame, gpu_pct: float, cores_pct: float) -> tuple[float, float] | None:
    """Return when the last work ended, told or seen, and the known idle seconds from there to the
    run's end.

    Short gaps between idle ticks count as idle; longer ones are unknown.

    None if activity is unknown, there was no work, or most of the time after it is unknown.
    """
    resting, told = is_idle(frame, gpu_pct, cores_pct), last_told_seconds(frame)
    if resting is None or (resting.all() and told is None):
        return None
    step = frame.resolution_seconds
    busy = resting.index[~resting.to_numpy(dtype=bool)]
    begin = max([told or 0.0, *(busy[-1:] + step)])
    ticks = resting.index[resting.index > begin - step + 1e-6]
    seconds = _known_seconds(ticks, step) - max([0.0, *(begin - ticks[:1])])
    rest = frame.duration_seconds - begin
    if rest > step and seconds < 0.5 * rest:
        return None
    return begin, seconds


def _known_seconds(ticks: pd.Index[float], resolution_seconds: float) -> float:
    """Return the time that these ticks cover, including gaps that are no longer than a blip."""
    spans = np.append(np.diff(ticks.to_numpy(dtype=float)), resolution_seconds)
    known = np.where(spans <= BLIP_SECONDS, spans, resolution_seconds)
    return float(known.sum()) if len(ticks) else 0.0


def _allowed_cores(node: NodeFrame, most_cores: float) -> float:
    if are_cores_own(node):
        return most_cores
    return max(most_cores, BACKGROUND_SHARE * cores(node))
