"""Reads the energy of a run's GPUs from its samples."""

from __future__ import annotations

from collections import defaultdict
from datetime import date, datetime, timedelta

import numpy as np
import pandas as pd

from advisor.costing.electricity import DayEnergy
from rules.frame import NodeFrame, RunFrame

_EPOCH, _DAY_SECONDS = date(1970, 1, 1), 86_400
_COUNTER, _POWER = "energy_joules_total", "power_watts"


def measured_energy(frame: RunFrame, started_at: datetime) -> dict[str, tuple[DayEnergy, ...]]:
    """Return the energy by node and day, of the GPUs that the run was given; empty for a node of
    which none was measured.

    The GPU's counter of energy counts; without one, the power that was sampled, in the cells in
    which it was.
    """
    width = frame.cell_seconds or frame.resolution_seconds
    return {key: _of_node(node, width, started_at) for key, node in frame.nodes.items()}


def _of_node(node: NodeFrame, width: float, started_at: datetime) -> tuple[DayEnergy, ...]:
    joules: dict[int, float] = defaultdict(float)
    seconds: dict[int, float] = defaultdict(float)
    gpus = node.allocated_gpus()
    for number in gpus:
        measured = _counted(node, number, width)
        if measured is None:
            measured = _sampled(node, number, width)
        if measured is None:
            continue
        days = (measured.index + started_at.timestamp()) // _DAY_SECONDS
        for day, part in measured.groupby(days):
            joules[int(day)] += float(part["joules"].sum())
            seconds[int(day)] += float(part["seconds"].sum())
    return tuple(
        DayEnergy(_EPOCH + timedelta(days=day), round(joules[day]), seconds[day] / len(gpus))
        for day in sorted(joules)
    )


def _counted(node: NodeFrame, number: int, width: float) -> pd.DataFrame | None:
    """Return the counter's rises at the cells at which they ended; None without two values. What
    it rose between two times that the node was held isn't the run's, and a fall says nothing.
    """
    counter = node.series(f"gpu{number}.{_COUNTER}")
    if counter is None or len(counter) < 2:
        return None
    times, values = counter.index.to_numpy(float), counter.to_numpy(float)
    starts = np.array([start for start, _ in node.intervals])
    held = np.searchsorted(starts, times + width / 2, side="right")
    is_own = (np.diff(values) >= 0) & (np.diff(held) == 0)
    rises = {"joules": np.diff(values)[is_own], "seconds": np.diff(times)[is_own]}
    return pd.DataFrame(rises, index=times[1:][is_own])


def _sampled(node: NodeFrame, number: int, width: float) -> pd.DataFrame | None:
    """Return the energy of the cells whose power is known; None without any."""
    name = f"gpu{number}.{_POWER}"
    watts = node.samples[name].dropna() if name in node.samples else None
    if watts is None or not len(watts):
        return None
    times = watts.index.to_numpy(float)
    seconds = np.zeros(len(times))
    for start, end in node.intervals:
        seconds += (np.minimum(times + width, end) - np.maximum(times, start)).clip(0)
    sampled = pd.DataFrame({"joules": watts.to_numpy(float) * seconds, "seconds": seconds}, times)
    return sampled[sampled["seconds"] > 0]
