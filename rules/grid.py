"""A node's time in cells of equal width, for values that are added up."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rules.frame import NodeFrame
from rules.rule import Window

Floats = NDArray[np.float64]
BLOCK_SECONDS = 5.0
"""The time in which measurements belong together (ours): a GPU's utilisation is a mean over up to a
second, and a process's CPU time may be counted later than the machine's. So a wait and idle time of
a GPU within it are the same time, and CPU time is its mean."""
GAP_SECONDS = 2.0
"""An agent whose samples are missing for less was late, or has just begun: no gap, as it says
itself."""
_NO_CELL = np.iinfo(np.int64).min


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
        """Return one value per cell; NaN if unknown."""
        values = np.full(self.count, np.nan)
        if series is None:
            return values
        places = np.round(series.index.to_numpy(dtype=float) / self.width_seconds).astype(np.int64)
        at = np.searchsorted(self.cells, places)
        inside = np.append(self.cells, _NO_CELL)[at] == places
        values[at[inside]] = series.to_numpy(dtype=float)[inside]
        return values

    def covered_seconds(self, windows: list[Window]) -> Floats:
        """Return the seconds of each cell covered by windows that don't overlap."""
        starts = np.array([w.start_seconds for w in windows])
        ends = np.array([w.end_seconds for w in windows])
        return self.spread(starts, ends, np.ones(len(windows)))

    def spread(self, starts: Floats, ends: Floats, density: Floats) -> Floats:
        """Return the seconds in each cell of stretches that count `density` a second."""
        low: Floats = self.cells.astype(np.float64) * self.width_seconds
        high: Floats = (self.cells + 1).astype(np.float64) * self.width_seconds
        found: Floats = _ramps(high, starts, density) - _ramps(low, starts, density)
        found -= _ramps(high, ends, density) - _ramps(low, ends, density)
        return np.clip(found, 0.0, None)

    @cached_property
    def blocks(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the first cell of each stretch of `BLOCK_SECONDS`, by place, and its number of
        cells.
        """
        starts = np.round(self.cells * self.width_seconds, 6)
        first = np.flatnonzero(np.diff(starts // BLOCK_SECONDS, prepend=-np.inf))
        return first, np.diff(first, append=self.count)

    def block_means(self, values: Floats) -> Floats:
        """Return at each cell the mean of the known values of its block; NaN if none is known."""
        if not self.count:
            return values
        first, lengths = self.blocks
        known = ~np.isnan(values)
        counts = np.add.reduceat(known.astype(float), first)
        sums = np.add.reduceat(np.nan_to_num(values), first)
        means = np.where(counts > 0, sums / np.maximum(counts, 1.0), np.nan)
        return np.asarray(np.repeat(means, lengths))


def unseen_seconds(node: NodeFrame, grid: Grid) -> Floats:
    """Return the width of cells without samples of the node for `GAP_SECONDS`; 0 for a node without
    any series.
    """
    if not len(node.samples.columns):
        return np.zeros(grid.count)
    unseen = ~(np.nan_to_num(grid.of_series(node.is_seen)) > 0)
    edges = np.flatnonzero(np.diff(unseen, prepend=False, append=False))
    lengths = np.diff(edges)[::2]
    is_long = np.repeat(lengths * grid.width_seconds >= GAP_SECONDS, lengths)
    unseen[unseen] = is_long
    return np.where(unseen, grid.width_seconds, 0.0)


def _ramps(edges: Floats, starts: Floats, density: Floats) -> Floats:
    """Return at each edge the sum of `density * (edge - start)` over the starts before it."""
    if not (starts[1:] >= starts[:-1]).all():
        order = np.argsort(starts)
        starts, density = starts[order], density[order]
    weights, moments = np.zeros(len(starts) + 1), np.zeros(len(starts) + 1)
    np.cumsum(density, out=weights[1:])
    np.cumsum(density * starts, out=moments[1:])
    before = np.searchsorted(starts, edges)
    ramps: Floats = weights[before] * edges - moments[before]
    return ramps
