"""The time of the training steps: how much of it went to waiting for data, and how much to
starvation.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rules.frame import NodeFrame, RunFrame
from rules.grid import Grid
from rules.starvation import is_starvation_known, starved_seconds, subtract_starved
from rules.training_loop import share_pct


@dataclass(frozen=True)
class StepTime:
    """Totals over all ranks without each rank's first step; see `NodeFrame.training_steps`."""

    ranks: int = 0
    steps: float = 0.0
    seconds: float = 0.0
    measured_seconds: float = 0.0
    """Time of the steps whose data wait was measured."""
    wait_seconds: float = 0.0
    starved_seconds: float = 0.0
    """Time of the measured steps in which the ranks were ready to work and waited for a core."""
    starved_wait_seconds: float = 0.0
    """The part of `starved_seconds` that lies within the waits for data."""

    @property
    def own_wait_seconds(self) -> float:
        """Return the wait for data that neighbours didn't cause."""
        return self.wait_seconds - self.starved_wait_seconds

    @property
    def own_share_pct(self) -> float | None:
        """Return the share of the measured step time spent waiting for data, both without the time
        in which the ranks were starved: a loop waits for the same share alone and beside others.
        """
        return share_pct(self.own_wait_seconds, self.measured_seconds - self.starved_seconds)

    @property
    def wait_share_pct(self) -> float | None:
        """Return `own_share_pct`; None if the wait of less than half of the step time was
        measured.
        """
        return self.own_share_pct if self.measured_seconds >= self.seconds / 2 else None


def step_time(frame: RunFrame) -> StepTime:
    return frame.once(_step_time)


def _step_time(frame: RunFrame) -> StepTime:
    totals = [
        (*node.training_totals, *_starved(node, frame.resolution_seconds))
        for node in frame.nodes.values()
    ]
    return StepTime(*(sum(column) for column in zip(*totals, strict=True)))


def _starved(node: NodeFrame, resolution_seconds: float) -> tuple[float, float]:
    """Return the seconds of all ranks in which they were starved in measured steps, and in the
    waits of these. Unknown starvation counts as none.
    """
    if not node.training_ranks or not is_starvation_known(node):
        return 0.0, 0.0
    ticks = node.judged.index.to_numpy(dtype=float)
    cells = np.unique(np.round(ticks / resolution_seconds).astype(np.int64))
    grid = Grid(cells, resolution_seconds)
    starved = starved_seconds(node, resolution_seconds, grid)
    if not starved.any():
        return 0.0, 0.0
    steps, ranks = node.training_steps, node.training_ranks
    measured = ~np.isnan(steps.wait_seconds) & (steps.seconds > 0)
    start, seconds = steps.start_seconds[measured], steps.seconds[measured]
    share = steps.wait_seconds[measured] / seconds
    whole = grid.spread(start, start + seconds, np.ones(len(start))) / ranks
    waits = grid.spread(start, start + seconds, share) / ranks
    told = {"wait": waits}
    slept = subtract_starved(told, starved, node, resolution_seconds, grid)["wait"]
    of_steps = np.minimum(starved * whole / grid.width_seconds, whole - slept)
    return float(of_steps.sum()) * ranks, float((waits - slept).sum()) * ranks
