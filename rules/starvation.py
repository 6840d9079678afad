"""Time in which a run was ready to work and waited for a core, because other programs held the
cores or a quota withheld them. Its processes use as little CPU time then as if they slept."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from rules.activity import own_cores, working
from rules.evidence import known_together, series_after
from rules.frame import NodeFrame
from rules.grid import Floats, Grid

RUN_DELAY = "tree.run_delay_seconds_total"
STARVED = "tree.starved_seconds_total"
"""The wait of the rank that sleeps least, since the agent began. The others wait for that one."""
HIDING_SHARE = 0.05
"""A run that is starved for so much of its time may need more cores than it used (ours)."""


def is_starvation_known(node: NodeFrame) -> bool:
    """Return whether the agent recorded how long the run's processes waited for a core."""
    return any(node.series(name) is not None for name in (STARVED, RUN_DELAY))


def waiting_threads(node: NodeFrame, resolution_seconds: float) -> pd.Series[float] | None:
    """Return how many of the processes' leading threads waited for a core; None if unknown."""
    return node.rate(RUN_DELAY, resolution_seconds)


def wanted_cores(node: NodeFrame, resolution_seconds: float) -> pd.Series[float] | None:
    """Return the cores that the run used, and those that its leading threads waited for."""
    used, waiting = own_cores(node, resolution_seconds), waiting_threads(node, resolution_seconds)
    if used is None or waiting is None:
        return used
    used, waiting = known_together(used, waiting)
    return used + waiting


def starved_share(node: NodeFrame, resolution_seconds: float) -> float | None:
    """Return the share of the time after warm-up in which the run waited for a core; None if
    unknown.
    """
    worked = series_after(_starved(node, resolution_seconds), node.warm_up_end_seconds())
    return None if worked is None else float(worked.clip(0.0, 1.0).mean())


def starved_at_work_seconds(node: NodeFrame, resolution_seconds: float) -> float | None:
    """Return the time between the first and the last step in which the run waited for a core; None
    if unknown.
    """
    worked = working(node, _starved(node, resolution_seconds))
    return None if worked is None else float(worked.clip(0.0, 1.0).sum()) * resolution_seconds


def starved_seconds(node: NodeFrame, resolution_seconds: float, grid: Grid) -> Floats:
    """Return the seconds of each cell in which the run waited for a core; 0 if unknown."""
    starved = np.nan_to_num(grid.of_series(_starved(node, resolution_seconds)))
    counted = starved * grid.width_seconds
    first = node.series(STARVED)
    if first is not None and len(counted) and first.index[0] < grid.width_seconds:
        # Later first samples are those of a part of the run, or come after a gap.
        counted[0] += first.iloc[0]
    return _when_waited(counted, grid.width_seconds)


def _starved(node: NodeFrame, resolution_seconds: float) -> pd.Series[float] | None:
    """Return the share of the time in which the run waited for a core. Recordings that tell only
    the sum of its processes have the mean of its ranks."""
    starved = node.rate(STARVED, resolution_seconds)
    if starved is not None:
        return starved
    waiting = waiting_threads(node, resolution_seconds)
    return None if waiting is None else waiting / max(node.training_ranks, 1)


def _when_waited(counted: Floats, width_seconds: float) -> Floats:
    """Return the seconds of each cell: the kernel counts a wait when it ends, so what is more than
    a cell holds was in the cells before.
    """
    backwards = counted[::-1]
    over = np.cumsum(backwards - width_seconds)
    left = over - np.minimum(np.minimum.accumulate(over), 0.0) if len(over) else over
    waited = backwards - np.diff(left, prepend=0.0)
    return np.asarray(waited[::-1])


def subtract_starved(
    told: Mapping[str, Floats],
    starved: Floats,
    node: NodeFrame,
    resolution_seconds: float,
    grid: Grid,
) -> dict[str, Floats]:
    """Return the seconds of each cell by told label, without the time in which the ranks were
    starved.

    They sleep in told time first: a loop whose loader sleeps isn't starved while it waits. What is
    told beyond that was starved as often as the rest of the time in which they didn't sleep.
    """
    whole = np.minimum(np.sum(list(told.values()), axis=0), grid.width_seconds)
    ran = np.nan_to_num(grid.of_series(own_cores(node, resolution_seconds))) * grid.width_seconds
    awake = np.minimum(ran / max(node.training_ranks, 1) + starved, grid.width_seconds)
    awake_told = np.clip(whole + awake - grid.width_seconds, 0.0, None)
    taken = awake_told * starved / np.where(awake > 0, awake, 1.0)
    left = 1.0 - taken / np.where(whole > 0, whole, 1.0)
    return {label: seconds * left for label, seconds in told.items()}
