"""Rows on a grid of equal cells, with gaps as NaN and nothing carried over them.

A grid may leave out stretches of which nothing is stored: they take no memory, however long.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from advisor.store.rows import (
    Rows,
    binned,
    cell_lasts,
    cell_means,
    cells_of,
    nearest,
    neighbours,
    no_gap,
)

_NO_CELL = np.iinfo(np.int64).min
_GOLDEN = (5**0.5 - 1) / 2
"""Its multiples, modulo 1, are spread evenly and in no rhythm (Weyl)."""


@dataclass(frozen=True)
class Grid:
    """Cells of `width_ms` that are numbered from `start_ms` on; `cells` has the kept ones, rising.

    A place is an index into `cells`.
    """

    start_ms: float
    width_ms: float
    cells: np.ndarray

    @classmethod
    def even(cls, start_ms: float, width_ms: float, count: int) -> Grid:
        """The first `count` cells, none left out."""
        return cls(start_ms, width_ms, np.arange(count))

    @property
    def count(self) -> int:
        return len(self.cells)

    def place_of(self, time_ms: int) -> int:
        """The place of the cell of a time, or of the first kept cell after it."""
        cell = (time_ms - self.start_ms) // self.width_ms
        return int(np.searchsorted(self.cells, cell))

    def starts_ms(self, place: int) -> float:
        return float(self.start_ms + self.cells[place] * self.width_ms)

    def middles_ms(self, places: np.ndarray) -> np.ndarray:
        return np.asarray(self.start_ms + (self.cells[places] + 0.5) * self.width_ms)

    def within(self, cells: np.ndarray, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
        """Which of `cells` are kept at the places [low, high), and those places counted from
        `low`."""
        places = np.searchsorted(self.cells[low:high], cells)
        kept = np.append(self.cells[low:high], _NO_CELL)[places] == cells
        return kept, places[kept]


def _known(rows: Rows) -> Rows:
    """The rows of which a value is known."""
    known = rows.count > 0
    return rows if known.all() else rows.pick(known)


Fill = Callable[[Rows, Grid, int, int], np.ndarray]
"""The values of the places [low, high) of a grid, from the rows around them."""


def spread(rows: Rows, grid: Grid, low: int, high: int) -> np.ndarray:
    """Low, mean and high of the places [low, high): float64 of shape (3, high - low).

    A cell without a sample takes its nearest neighbour's, unless it is in a gap.
    """
    known = _known(rows)
    cells, sums = binned(known, grid.start_ms, grid.width_ms)
    inside, places = grid.within(cells, low, high)
    values = np.full((3, high - low), np.nan)
    values[:, places] = np.stack([sums.low, sums.mean, sums.high])[:, inside]
    empty = np.flatnonzero(np.isnan(values[1]))
    source = nearest(known, grid.middles_ms(empty + low))
    filled, source = empty[source >= 0], source[source >= 0]
    values[:, filled] = np.stack([known.low, known.mean, known.high])[:, source]
    return values


def counts(rows: Rows, grid: Grid) -> np.ndarray:
    """The known samples in each cell: int64 of shape (grid.count,)."""
    cells, sums = binned(_known(rows), grid.start_ms, grid.width_ms)
    inside, places = grid.within(cells, 0, grid.count)
    found = np.zeros(grid.count, dtype=np.int64)
    found[places] = sums.count[inside]
    return found


def means(rows: Rows, grid: Grid, low: int, high: int) -> np.ndarray:
    """The mean of `spread`, without the rest of it: half of the time of reading a run."""
    known = _known(rows)
    values = np.full(high - low, np.nan)
    cells, first = cells_of(known, grid.start_ms, grid.width_ms)
    if len(first):
        inside, places = grid.within(cells, low, high)
        values[places] = cell_means(known, first)[1][inside]
    _fill_from_nearest(values, known, known.mean, grid, low)
    return values


def _fill_from_nearest(
    values: np.ndarray, rows: Rows, of_rows: np.ndarray, grid: Grid, low: int
) -> None:
    """Fill the empty cells from the place `low` on that are in no gap."""
    empty = np.flatnonzero(np.isnan(values))
    if len(empty):
        source = nearest(rows, grid.middles_ms(empty + low))
        values[empty[source >= 0]] = of_rows[source[source >= 0]]


def last_values(rows: Rows, grid: Grid, low: int, high: int) -> np.ndarray:
    """A counter's value at the end of the cells at the places [low, high), float64.

    Cells without a sample are interpolated linearly, unless they are in a gap or the counter was
    reset.
    """
    values = np.full(high - low, np.nan)
    cells, first = cells_of(rows, grid.start_ms, grid.width_ms)
    if len(first):
        inside, places = grid.within(cells, low, high)
        values[places] = cell_lasts(rows, first)[inside]
    empty = np.flatnonzero(np.isnan(values))
    if not len(empty):
        return values
    middles = grid.middles_ms(empty + low)
    source = nearest(rows, middles)
    known = source >= 0
    if known.any():
        values[empty[known]] = _between(rows, grid, middles[known], source[known])
    return values


def _between(rows: Rows, grid: Grid, middles_ms: np.ndarray, source: np.ndarray) -> np.ndarray:
    """A counter's value in cells without a sample that aren't in a gap."""
    left, right = neighbours(rows, middles_ms)
    # At the same offset in its cell as the sample before, so that even growth gives even
    # differences.
    phase_ms = (rows.at_ms[left] - grid.start_ms) % grid.width_ms
    even = np.interp(middles_ms - grid.width_ms / 2 + phase_ms, rows.at_ms, rows.last)
    connected = no_gap(rows, left, right)
    rises = rows.last[right] >= rows.last[left]
    held = np.where(connected, rows.last[left], rows.last[source])
    return np.asarray(np.where(connected & rises, even, held))


def picked(rows: Rows, grid: Grid, low: int, high: int) -> np.ndarray:
    """One of the samples in each of the cells at the places [low, high).

    Which one varies from cell to cell, so that no rhythm of the training is missed; it is the same
    for all series with the same times. Cells without a sample are filled as in `spread`.
    """
    known = _known(rows)
    cells, first = cells_of(known, grid.start_ms, grid.width_ms)
    count = np.diff(first, append=len(known))
    inside, places = grid.within(cells, low, high)
    nth = (count * (cells * _GOLDEN % 1.0)).astype("int64")
    values = np.full(high - low, np.nan)
    values[places] = known.mean[(first + nth)[inside]]
    _fill_from_nearest(values, known, known.mean, grid, low)
    return values
