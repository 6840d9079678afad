"""Fills the cells of a grid from rows, with gaps as NaN and nothing carried over them.

Nearly all series of a node are sampled together. So where rows fall on the grid is found once for
the series that have the same times, and each of them only brings its values.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import cached_property

import numpy as np

from advisor.store.grid import SampleGrid
from advisor.store.rows import (
    Rows,
    cell_lasts,
    cell_means,
    cell_weights,
    cells_of,
    nearest,
    neighbours,
    no_gap,
)

_GOLDEN = (5**0.5 - 1) / 2
"""The golden ratio's fraction. Its multiples, modulo 1, are spread evenly and in no rhythm
(Weyl)."""
REMEMBERED = 4
"""Gauges and counters take turns, as do series with and without missing samples."""


class Placing:
    """The places [low, high) of a grid that rows with these times fall among."""

    def __init__(self, rows: Rows, grid: SampleGrid, low: int, high: int) -> None:
        self.grid = grid
        self._rows, self._low, self._high = rows, low, high
        cells, self.first = cells_of(rows, grid.start_ms, grid.width_ms)
        self._inside, self.places = grid.kept_between(cells, low, high)
        self._cells = cells

    def holds(self, rows: Rows, low: int, high: int) -> bool:
        """Return whether these rows fall the same way."""
        own = self._rows
        return (
            (low, high) == (self._low, self._high)
            and _is_same(rows.at_ms, own.at_ms)
            and _is_same(rows.width_ms, own.width_ms)
            and _is_same(rows.cadence_ms, own.cadence_ms)
            and _is_same(rows.weight, own.weight)
        )

    def empty_places(self) -> np.ndarray:
        return np.full(self._high - self._low, np.nan)

    def means(self, rows: Rows) -> np.ndarray:
        """Return the weighted mean of each of `places`; NaN without weight."""
        if not len(self.first):
            return np.zeros(0)
        return np.asarray(cell_means(rows, self.first, self._weights)[self._inside])

    def lasts(self, rows: Rows) -> np.ndarray:
        """Return the last value of each of `places`."""
        return np.asarray(cell_lasts(rows, self.first)[self._inside])

    def picks(self, rows: Rows) -> np.ndarray:
        """Return the mean of one of the rows of each of `places`."""
        return np.asarray(rows.mean[self._picked])

    def middles_ms(self, empty: np.ndarray) -> np.ndarray:
        return self.grid.middles_ms(empty + self._low)

    def nearest(self, empty: np.ndarray) -> np.ndarray:
        """Return for each empty place the index of the row that covers its middle; -1 if none
        does.
        """
        known, source = self._nearest
        if _is_same(empty, known):
            return source
        return nearest(self._rows, self.middles_ms(empty))

    @cached_property
    def _weights(self) -> np.ndarray:
        return cell_weights(self._rows, self.first)

    @cached_property
    def _picked(self) -> np.ndarray:
        count = np.diff(self.first, append=len(self._rows))
        nth = (count * (self._cells * _GOLDEN % 1.0)).astype("int64")
        return np.asarray((self.first + nth)[self._inside])

    @cached_property
    def _nearest(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the places without rows, and the row nearest to each."""
        is_empty = np.ones(self._high - self._low, dtype=bool)
        is_empty[self.places] = False
        empty = np.flatnonzero(is_empty)
        return empty, nearest(self._rows, self.middles_ms(empty))


class Placings:
    """The last few placings on one grid."""

    def __init__(self, grid: SampleGrid) -> None:
        self.grid = grid
        self._known: deque[Placing] = deque(maxlen=REMEMBERED)

    def find(self, rows: Rows, low: int, high: int) -> Placing:
        for placing in self._known:
            if placing.holds(rows, low, high):
                return placing
        placing = Placing(rows, self.grid, low, high)
        self._known.appendleft(placing)
        return placing


Fill = Callable[[Rows, Placings, int, int], np.ndarray]
"""The values of the places [low, high) of a grid, from the rows around them."""


def means(rows: Rows, placings: Placings, low: int, high: int) -> np.ndarray:
    """Return the mean of `grid.spread`, without the rest of it: half of the time of reading a
    run.
    """
    known = rows.drop_unknown()
    placing = placings.find(known, low, high)
    values = placing.empty_places()
    values[placing.places] = placing.means(known)
    return _filled_from_nearest(values, known, placing)


def last_values(rows: Rows, placings: Placings, low: int, high: int) -> np.ndarray:
    """Return a counter's value at the end of the cells at the places [low, high), float64.

    Cells without a sample are interpolated linearly, unless they are in a gap or the counter was
    reset.
    """
    placing = placings.find(rows, low, high)
    values = placing.empty_places()
    values[placing.places] = placing.lasts(rows)
    empty = np.flatnonzero(np.isnan(values))
    if not len(empty):
        return values
    source = placing.nearest(empty)
    known = source >= 0
    if known.any():
        middles = placing.middles_ms(empty)[known]
        values[empty[known]] = _between(rows, placing.grid, middles, source[known])
    return values


def picks(rows: Rows, placings: Placings, low: int, high: int) -> np.ndarray:
    """Return one of the samples in each of the cells at the places [low, high).

    Which one varies from cell to cell, so that no rhythm of the training is missed; it is the same
    for all series with the same times. Cells without a sample are filled as in `grid.spread`.
    """
    known = rows.drop_unknown()
    placing = placings.find(known, low, high)
    values = placing.empty_places()
    values[placing.places] = placing.picks(known)
    return _filled_from_nearest(values, known, placing)


def _filled_from_nearest(values: np.ndarray, rows: Rows, placing: Placing) -> np.ndarray:
    """Return the values with the empty cells filled that are in no gap."""
    empty = np.flatnonzero(np.isnan(values))
    if len(empty):
        source = placing.nearest(empty)
        values[empty[source >= 0]] = rows.mean[source[source >= 0]]
    return values


def _between(
    rows: Rows, grid: SampleGrid, middles_ms: np.ndarray, source: np.ndarray
) -> np.ndarray:
    """Return a counter's value in cells without a sample that aren't in a gap."""
    left, right = neighbours(rows, middles_ms)
    # At the same offset in its cell as the sample before, so that even growth gives even
    # differences.
    phase_ms = (rows.at_ms[left] - grid.start_ms) % grid.width_ms
    even = np.interp(middles_ms - grid.width_ms / 2 + phase_ms, rows.at_ms, rows.last)
    connected = no_gap(rows, left, right)
    rises = rows.last[right] >= rows.last[left]
    held = np.where(connected, rows.last[left], rows.last[source])
    return np.asarray(np.where(connected & rises, even, held))


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    return one is other or np.array_equal(one, other)
