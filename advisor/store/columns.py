"""The columns of a frame, hour by hour: what an hour adds to them can be kept and taken again.

An hour's part of a node's columns depends on the hour's objects, on the grids, and on how the hours
before left the lines. Its name is a hash of these, so a part that is found by its name gives the
same columns as reading the hour again. A late segment changes the part of its own hour, and of the
next one only if it was the last of its hour.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np
import pandas as pd

from advisor.store.chunks import ChunkError
from advisor.store.column_parts import HourPart, decode, encode
from advisor.store.grid import SampleGrid
from advisor.store.histogram import expand_rows, scale_of
from advisor.store.lines import Lines, LinesPart
from advisor.store.placing import Fill, last_values, means, picks
from advisor.store.room import Room
from advisor.store.rows import Rows
from rules.evidence import is_counter
from rules.ticks import has_ticks, patterns

VERSION = 2
"""The version of how columns are made of an hour. Parts of another version are never found."""


class ColumnStore(Protocol):
    """The place where the parts of a run's columns are kept from one analysis to the next."""

    def find(self, node_key: str, name: str) -> bytes | None:
        """Return the body that was kept by this name, or None."""

    def keep(self, node_key: str, name: str, hour_ms: int, body: bytes) -> None: ...


class Columns:
    """The samples and ticks of one node between two times (Unix milliseconds), on a grid each."""

    def __init__(
        self, grid: SampleGrid, ticks: SampleGrid, times_ms: tuple[int, int], room: Room
    ) -> None:
        self._start_ms, self._end_ms = times_ms
        self._room = room
        self._samples = Lines(grid, "float64", _fill_of)
        self._ticks = Lines(ticks, "float32", lambda _: picks)
        self._left: str | None = None
        """A hash of how the last hour left the lines; None: not known yet."""
        self._newest_ms = self._start_ms
        self._series = 0

    @property
    def series(self) -> int:
        """Return how many the last hour had."""
        return self._series

    @property
    def names(self) -> list[str]:
        return self._samples.names

    @property
    def is_whole(self) -> bool:
        """Return whether all rows lie before the end: none was moved inside, as it would be with a
        later end.
        """
        return self._newest_ms < self._end_ms

    def name_of(self, objects: Iterable[str]) -> str:
        """Return the name of the part of an hour with these objects, if it follows the last one."""
        if self._left is None:
            self._left = _state({"samples": self._samples.part(), "ticks": self._ticks.part()})
        grids = [[g.start_ms, g.width_ms] for g in (self._samples.grid, self._ticks.grid)]
        made_of = [VERSION, patterns(), self._start_ms, grids, self._left, sorted(objects)]
        return hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:32]

    def add(self, hour: Iterable[tuple[str, Rows]], is_last: bool = False) -> None:
        """Add all series of an hour.

        Args:
            is_last: no hour follows, and nobody asks for the part of this one.

        Raises:
            TooFineError, TooLargeError: there is no room for them.
        """
        self._left, self._series = None, 0
        for name, every in hour:
            self._newest_ms = max(self._newest_ms, int(every.at_ms[-1]))
            rows = every.clip(self._start_ms, self._end_ms)
            self._begin(name)
            self._samples.add(name, rows, is_last)
            if name in self._ticks:
                self._ticks.add(name, expand_rows(rows, scale_of(name)), is_last)
            self._series += 1

    def part(self) -> bytes:
        """Return what the last hour added, if its name was asked for before."""
        lines = {"samples": self._samples.part(), "ticks": self._ticks.part()}
        self._left = _state(lines)
        return encode(HourPart(self._series, self._newest_ms, lines))

    def take(self, body: bytes) -> bool:
        """Take an hour from its part instead of adding it; False, and nothing is done, if it is
        damaged or doesn't fit.

        Raises:
            TooFineError, TooLargeError: as `add`.
        """
        try:
            part = decode(body)
        except ChunkError:
            return False
        own = {"samples": self._samples, "ticks": self._ticks}
        fits = all(lines.fits(part.lines[name]) for name, lines in own.items())
        if not fits or part.newest_ms >= self._end_ms:
            return False
        for name in part.lines["samples"].names:
            self._begin(name)
        for name, lines in own.items():
            lines.take(part.lines[name])
        self._left = _state(part.lines)
        self._newest_ms, self._series = part.newest_ms, part.series
        return True

    def tables(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the samples and the ticks, a column each; they are forgotten here."""
        return _table(self._samples, "float64"), _table(self._ticks, "float32")

    def _begin(self, name: str) -> None:
        if name in self._samples:
            return
        self._room.take_series(
            self._samples.grid.count, self._ticks.grid.count if has_ticks(name) else 0
        )
        self._samples.begin(name)
        if has_ticks(name):
            self._ticks.begin(name)


def _state(lines: Mapping[str, LinesPart]) -> str:
    return "".join(part.state for part in lines.values())


def _fill_of(series: str) -> Fill:
    return last_values if is_counter(series) else means


def _table(lines: Lines, dtype: str) -> pd.DataFrame:
    """Empties `lines` one by one: at no time do they and the table take memory together."""
    grid, names = lines.grid, lines.names
    index = pd.Index(grid.cells * (grid.width_ms / 1000), name="seconds")
    values = np.empty((len(names), grid.count), dtype)
    for place, name in enumerate(names):
        values[place] = lines.finish(name)
    return pd.DataFrame(values.T, index=index, columns=pd.Index(names, dtype=object), copy=False)
