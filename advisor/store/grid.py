"""Rows on a grid of equal cells, with gaps as NaN and nothing carried over them.

A grid may leave out stretches of which nothing is stored: they take no memory, however long.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from advisor.store.rows import Rows, bin_rows, nearest

_NO_CELL = np.iinfo(np.int64).min


@dataclass(frozen=True)
class SampleGrid:
    """Cells of `width_ms` that are numbered from `start_ms` on; `cells` has the kept ones, rising.

    A place is an index into `cells`.
    """

    start_ms: float
    width_ms: float
    cells: np.ndarray

    @classmethod
    def even(cls, start_ms: float, width_ms: float, count: int) -> SampleGrid:
        """Return the first `count` cells, none left out."""
        return cls(start_ms, width_ms, np.arange(count))

    @property
    def count(self) -> int:
        return len(self.cells)

    def place_of(self, time_ms: int) -> int:
        """Return the place of the cell of a time, or of the first kept cell after it."""
        cell = (time_ms - self.start_ms) // self.width_ms
        return int(np.searchsorted(self.cells, cell))

    def starts_ms(self, place: int) -> float:
        return float(self.start_ms + self.cells[place] * self.width_ms)

    def middles_ms(self, places: np.ndarray) -> np.ndarray:
        return np.asarray(self.start_ms + (self.cells[places] + 0.5) * self.width_ms)

    def kept_between(self, cells: np.ndarray, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        """Return which of `cells` are kept at the places [low, high), and those places counted from
        `low`.
        """
        places = np.searchsorted(self.cells[low:high], cells)
        kept = np.append(self.cells[low:high], _NO_CELL)[places] == cells
        return kept, places[kept]


def spread(rows: Rows, grid: SampleGrid, low: int, high: int) -> np.ndarray:
    """Return low, mean and high of the places [low, high): float64 of shape (3, high - low).

    A cell without a sample takes its nearest neighbour's, unless it is in a gap.
    """
    known = rows.drop_unknown()
    cells, sums = bin_rows(known, grid.start_ms, grid.width_ms)
    inside, places = grid.kept_between(cells, low, high)
    values = np.full((3, high - low), np.nan)
    values[:, places] = np.stack([sums.low, sums.mean, sums.high])[:, inside]
    empty = np.flatnonzero(np.isnan(values[1]))
    source = nearest(known, grid.middles_ms(empty + low))
    filled, source = empty[source >= 0], source[source >= 0]
    values[:, filled] = np.stack([known.low, known.mean, known.high])[:, source]
    return values


def counts(rows: Rows, grid: SampleGrid) -> np.ndarray:
    """Return the known samples in each cell: int64 of shape (grid.count,)."""
    cells, sums = bin_rows(rows.drop_unknown(), grid.start_ms, grid.width_ms)
    inside, places = grid.kept_between(cells, 0, grid.count)
    found = np.zeros(grid.count, dtype=np.int64)
    found[places] = sums.count[inside]
    return found
