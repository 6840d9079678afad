"""Series on a grid, filled hour by hour, and carried on from what an earlier reading filled.

A line needs nothing of the hours before but the rows of its last cell. So an hour's part of it can
be kept, with these rows: taking the part gives the same line as adding the hour's rows again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from advisor.store.grid import SampleGrid
from advisor.store.placing import Fill, Placings
from advisor.store.rows import Rows, join_rows, no_histograms, no_rows

CARRIED = ("at_ms", "width_ms", "cadence_ms", "weight", "count", "mean", "last")
"""The fields of rows that fill cells."""


class SeriesLine:
    """One series on a grid, filled as its rows arrive in time order. Keeps the rows of its last
    cell only."""

    def __init__(self, placings: Placings, fill: Fill, dtype: str) -> None:
        self.values = np.full(placings.grid.count, np.nan, dtype)
        self.open = no_rows()
        self.done = 0
        """The first place that isn't filled yet."""
        self._placings = placings
        self._grid = placings.grid
        self._fill = fill
        self._most = np.finfo(dtype).max

    def add(self, rows: Rows, is_last: bool = False) -> None:
        """Add rows inside the grid, in time order after earlier ones.

        Args:
            is_last: none follow.
        """
        self.open = join_rows([self.open, rows])
        if is_last:
            self.finish()
            self.open = no_rows()
        if not len(self.open):
            return
        newest = min(self._grid.place_of(int(self.open.at_ms[-1])), self._grid.count - 1)
        self._settle(newest)
        opens_at = np.searchsorted(self.open.at_ms, self._grid.starts_ms(newest))
        self.open = self.open.pick(slice(max(int(opens_at) - 1, 0), None))

    def finish(self) -> np.ndarray:
        self._settle(self._grid.count)
        return self.values

    def _settle(self, end: int) -> None:
        if end > self.done:
            filled = self._fill(self.open, self._placings, self.done, end)
            # Nothing measures more than 32 bits can hold: what is sent so is unknown.
            filled[np.abs(filled) > self._most] = np.nan
            self.values[self.done : end] = filled
            self.done = end


@dataclass(frozen=True)
class LinesPart:
    """The part that an hour filled of the lines on one grid, and how it left all of them.

    Attributes:
        names: of all lines so far, in order.
        starts, lengths: int64, a line each: the places that the hour filled.
        values: of these places, line after line, in the lines' type.
        done: int64, a line each: the first place that isn't filled yet.
        held: int64, a line each: how many of `rows` it holds.
        rows: what fills the next place, line after line.
        cells: which cells of the grid lie in the places filled so far, as a short hash.
    """

    names: list[str]
    starts: np.ndarray
    lengths: np.ndarray
    values: np.ndarray
    done: np.ndarray
    held: np.ndarray
    rows: Rows
    cells: str

    @cached_property
    def state(self) -> str:
        """Return a hash of all that the next hour's part depends on, but for its own rows."""
        digest = hashlib.sha256(json.dumps(self.names).encode())
        for values in (self.done, self.held, *(getattr(self.rows, name) for name in CARRIED)):
            digest.update(values.tobytes())
        return digest.hexdigest()[:32]


class Lines:
    """The series of a node on one grid, by name.

    Args:
        fill_of: how the cells of a series are filled.
    """

    def __init__(self, grid: SampleGrid, dtype: str, fill_of: Callable[[str], Fill]) -> None:
        self.grid = grid
        self._dtype = dtype
        self._fill_of = fill_of
        self._placings = Placings(grid)
        self._lines: dict[str, SeriesLine] = {}
        self._filled: dict[str, int] = {}
        """The places up to which each line was filled when the hour began."""
        self._left: LinesPart | None = None
        """The part that was taken last, which says how the lines are, until rows are added."""

    @property
    def names(self) -> list[str]:
        return sorted(self._lines)

    def __contains__(self, name: str) -> bool:
        return name in self._lines

    def begin(self, name: str) -> None:
        self._lines[name] = SeriesLine(self._placings, self._fill_of(name), self._dtype)

    def add(self, name: str, rows: Rows, is_last: bool = False) -> None:
        """Add rows of a series that has begun, in time order after earlier ones.

        Args:
            is_last: none of any series follow after this hour.
        """
        self._carry_on()
        self._lines[name].add(rows, is_last)

    def part(self) -> LinesPart:
        """Return what was filled since the last part."""
        self._carry_on()
        names, lines = self.names, [self._lines[name] for name in self.names]
        done = np.array([line.done for line in lines], dtype=np.int64)
        starts = np.array([self._start(n) for n in names], dtype=np.int64)
        spans = zip(lines, starts.tolist(), strict=True)
        values = [line.values[start : line.done] for line, start in spans]
        self._filled = dict(zip(names, done.tolist(), strict=True))
        return LinesPart(
            names=names,
            starts=starts,
            lengths=done - starts,
            values=np.concatenate([np.zeros(0, self._dtype), *values]),
            done=done,
            held=np.array([len(line.open) for line in lines], dtype=np.int64),
            rows=_one_after_another([line.open for line in lines]),
            cells=self._cells(done),
        )

    def fits(self, part: LinesPart) -> bool:
        """Return whether the part was filled on this grid."""
        return len(part.done) == 0 or (
            int(part.done.max()) < self.grid.count and part.cells == self._cells(part.done)
        )

    def take(self, part: LinesPart) -> None:
        """Fill what the part has, instead of adding its hour. All of its series have begun."""
        end = 0
        columns = (part.names, part.starts.tolist(), part.lengths.tolist())
        for name, start, length in zip(*columns, strict=True):
            self._lines[name].values[start : start + length] = part.values[end : end + length]
            end += length
        self._left = part
        self._filled = dict(zip(part.names, part.done.tolist(), strict=True))

    def finish(self, name: str) -> np.ndarray:
        """Return all cells of a series, which is forgotten."""
        self._carry_on()
        return self._lines.pop(name).finish()

    def _start(self, name: str) -> int:
        """Return the first place that the hour filled; of a new series, the first known one."""
        if name in self._filled:
            return self._filled[name]
        line = self._lines[name]
        known = np.flatnonzero(~np.isnan(line.values[: line.done]))
        return int(known[0]) if len(known) else line.done

    def _carry_on(self) -> None:
        if self._left is None:
            return
        part, self._left = self._left, None
        ends = np.cumsum(part.held).tolist()
        columns = (part.names, part.done.tolist(), part.held.tolist(), ends)
        for name, done, held, end in zip(*columns, strict=True):
            line = self._lines[name]
            line.done, line.open = done, part.rows.pick(slice(end - held, end))

    def _cells(self, done: np.ndarray) -> str:
        newest = int(done.max(initial=0))
        return hashlib.sha256(self.grid.cells[: newest + 1].tobytes()).hexdigest()[:32]


def _one_after_another(parts: list[Rows]) -> Rows:
    """Join the parts, without a histogram, and with means for the range: neither fills cells."""
    every = Rows(
        *(
            np.concatenate([getattr(part, name) for part in (no_rows(), *parts)])
            for name in vars(no_rows())
        )
    )
    mean = every.mean
    return replace(every, low=mean, high=mean, histogram=no_histograms(len(mean)))
