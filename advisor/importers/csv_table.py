"""A CSV file with a column of times and columns of numbers, each of which is one of our series.

Columns that aren't named as our series are mapped by the person: their name -> a series, or `time`.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from itertools import islice

import numpy as np
from trimtab.wire.limits import SERIES_NAME

from advisor.importers import times
from advisor.importers.recording import (
    NotImportableError,
    Part,
    RecordedNode,
    Samples,
    SamplesOnly,
    cadence,
)
from advisor.importers.source import Source
from advisor.importers.stated import Stated
from advisor.importers.tally import Tally

FORMAT = "CSV"
TIME = "time"
_MOST_FILES = 100
"""The most files that are looked at to find a table."""
_TICKS_A_PART = 3600
_MOST_COLUMNS, _MOST_CHARACTERS = 2000, 100_000
"""The most columns and characters of a line."""
_TIMED = ("time", "timestamp", "_timestamp", "date")
"""Names of the column of times, if none is mapped to it."""


def recognises(source: Source) -> bool:
    """Return whether a file with a fitting name has a head of several columns."""
    return any(len(_head(source, path)) > 1 for path in _candidates(source))


def opened(source: Source, stated: Stated, tally: Tally) -> CsvRecording:
    """Open the first table.

    Raises:
        NotImportableError: it has no column of times, or none that is a series.
    """
    return CsvRecording(source, stated, tally)


class CsvRecording(SamplesOnly):
    """One machine. See `recording.Recording`."""

    format = FORMAT

    def __init__(self, source: Source, stated: Stated, tally: Tally) -> None:
        super().__init__(tally)
        self._source, self._tally = source, tally
        tables = (path for path in _candidates(source) if len(_head(source, path)) > 1)
        self._path, *others = tables
        tally.skip("files", "another table; import it alone", len(others))
        self._head = _head(source, self._path)
        self._time, self._series = _places(self._head, stated.columns, tally)
        first = next(self._rows(Tally()), None)
        if first is None:
            raise NotImportableError("no line with a time")
        self.nodes = [RecordedNode("machine", first[0])]

    def parts(self, node: RecordedNode) -> Iterator[Part]:
        del node
        rows, cadence_ms = self._rows(self._tally), 0
        while batch := list(islice(rows, _TICKS_A_PART)):
            times_ms = np.array([time_ms for time_ms, _ in batch], dtype="int64")
            if len(times_ms) > 1 and not cadence_ms:
                cadence_ms = cadence(times_ms)
            values = np.array([numbers for _, numbers in batch], dtype="float64")
            self._tally.take("samples", int(np.isfinite(values).sum()))
            columns = {name: values[:, n] for n, name in enumerate(self._series)}
            yield Samples(cadence_ms or 1000, times_ms, columns)

    def _rows(self, tally: Tally) -> Iterator[tuple[int, list[float]]]:
        last_ms = 0
        for line in islice(self._lines(tally), 1, None):
            cells = _cells(line)
            time_ms = times.time_ms(cells[self._time]) if len(cells) == len(self._head) else None
            if time_ms is None:
                tally.skip("lines", "no time, or another number of columns", 1, self._path)
            elif time_ms <= last_ms:
                tally.skip("lines", "not later than the line before", 1, self._path)
            else:
                last_ms = time_ms
                yield time_ms, [_number(cells[place]) for place in self._series.values()]

    def _lines(self, tally: Tally) -> Iterator[str]:
        for piece in self._source.lines(self._path, tally):
            lines = piece.decode("utf-8-sig", errors="replace").splitlines()
            yield from (line for line in lines if line.strip())


def _candidates(source: Source) -> Iterator[str]:
    named = (path for path in source.sizes if path.lower().endswith((".csv", ".csv.gz")))
    return islice(named, _MOST_FILES)


def _head(source: Source, path: str) -> list[str]:
    """Return the names of the file's columns; empty if it isn't a table."""
    text = source.beginning(path, _MOST_CHARACTERS).decode("utf-8-sig", errors="replace")
    lines = (line for line in text.splitlines() if line.strip())
    return [cell.strip() for cell in _cells(next(lines, ""))]


def _cells(line: str) -> list[str]:
    """Return the cells of one line: a text of several lines is no number. Empty if it is too
    long.
    """
    try:
        cells = next(csv.reader([line[:_MOST_CHARACTERS]]), [])
    except csv.Error:
        return []
    return cells if len(cells) <= _MOST_COLUMNS else []


def _places(head: list[str], mapped: dict[str, str], tally: Tally) -> tuple[int, dict[str, int]]:
    """Return the column of the times, and the columns that are series."""
    if unknown := sorted(set(mapped) - set(head)):
        raise NotImportableError(f"no column {unknown[0]!r}. Columns: {', '.join(head[:20])}")
    time, series = None, {}
    for place, name in enumerate(head):
        meant = mapped.get(name, name)
        is_timed = name.lower() in _TIMED and name not in mapped and TIME not in mapped.values()
        if meant == TIME or is_timed:
            time = place if time is None else time
        elif SERIES_NAME.match(meant) and meant not in series:
            series[meant] = place
        elif name in mapped:
            raise NotImportableError(
                f"{meant!r} is not a series (entity.metric_unit) or used twice"
            )
        else:
            tally.skip("columns", "no series of ours", 1, name)
    if time is None:
        raise NotImportableError("no column of times: map one, for example --column 'Date=time'")
    if not series:
        listed = ", ".join(name for name in head[:20] if name)
        raise NotImportableError(
            "no column is a series: map them, for example --column 'GPU use=gpu0.busy_pct'. "
            f"Columns: {listed}"
        )
    return time, series


def _number(cell: str) -> float:
    """Return the number, or NaN for what is no number."""
    try:
        number = float(cell)
    except ValueError:
        return math.nan
    return number if abs(number) < 1e18 else math.nan
