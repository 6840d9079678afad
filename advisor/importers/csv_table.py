"""A CSV file with a column of times and columns of numbers, each of which is one of our series.

Columns that aren't named as our series are mapped by the person: their name -> a series, or `time`.
Those of nvitop's `ResourceMetricCollector` are known.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator
from itertools import islice

import numpy as np
from trimtab.wire.limits import SERIES_NAME

from advisor.importers import nvitop, times
from advisor.importers.recording import (
    NotImportableError,
    Part,
    RecordedNode,
    Samples,
    SamplesOnly,
    cadence,
)
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from advisor.importers.unrecognised import lists_jobs
from advisor.store.index import to_ms

FORMAT = "CSV"
TIME = "time"
_MOST_FILES = 100
"""The most files that are looked at to find a table."""
_TICKS_A_PART = 3600
_MOST_COLUMNS, _MOST_CHARACTERS = 2000, 100_000
"""The most columns and characters of a line."""
_MOST_LISTED = 20
_DELIMITERS = (",", ";", "\t")
_GPU = re.compile(r"gpu\d+(?=\.)")
_TIMED = ("time", "timestamp", "_timestamp", "date")
"""Names of the column of times, if none is mapped to it."""

_TIMELY, _BUSY = ("time", "date", "elapsed", "Date"), ("util", "busy", "usage", "GPU use")
"""Words in the names of columns that fit an example of mapping."""


def recognises(source: Source) -> bool:
    """Return whether a file with a fitting name has a head of several columns."""
    return any(_is_table(source, path) for path in _candidates(source))


def open_recording(source: Source, stated: StatedFacts, tally: Tally) -> CsvRecording:
    """Open the first table.

    Raises:
        NotImportableError: it has no column of times, or none that is a series.
    """
    return CsvRecording(source, stated, tally)


class CsvRecording(SamplesOnly):
    """One machine. See `recording.Recording`."""

    format = FORMAT

    def __init__(self, source: Source, stated: StatedFacts, tally: Tally) -> None:
        super().__init__(tally)
        self._source, self._tally = source, tally
        tables = (path for path in _candidates(source) if _is_table(source, path))
        self._path, *others = tables
        tally.skip("files", "another table; import it alone", len(others))
        self._delimiter = _delimiter(source, self._path)
        self._head = _head(source, self._path)
        self._time, self._series = _places(self._head, stated.columns, tally)
        self._began_ms = to_ms(stated.started_at) if stated.started_at else None
        first = next(self._rows(Tally()), None)
        if first is None:
            next(self._rows(tally), None)  # counts the lines that are none
            raise NotImportableError(self._no_times())
        # A GPU that a column names is there, whether or not its use is known.
        gpus = {found[0] for name in self._series if (found := _GPU.match(name))}
        self.nodes = [RecordedNode("machine", first[0], gpus=len(gpus))]

    def parts(self, node: RecordedNode) -> Iterator[Part]:
        del node
        rows, cadence_ms = self._rows(self._tally), 0
        while batch := list(islice(rows, _TICKS_A_PART)):
            times_ms = np.array([time_ms for time_ms, _ in batch], dtype="int64")
            if len(times_ms) > 1 and not cadence_ms:
                cadence_ms = cadence(times_ms)
            values = np.array([numbers for _, numbers in batch], dtype="float64")
            self._tally.take("samples", int(np.isfinite(values).sum()))
            factors = [factor for _, factor in self._series.values()]
            columns = {
                name: values[:, n] * factor
                for n, (name, factor) in enumerate(zip(self._series, factors, strict=True))
            }
            yield Samples(cadence_ms or 1000, times_ms, columns)

    def _time_ms(self, cell: str) -> int | None:
        """Return the cell's time. Seconds since the begin need the begin, which a person says."""
        seconds = _number(cell)
        if self._began_ms is not None and 0 <= seconds < times.EARLIEST_SECONDS:
            return self._began_ms + round(seconds * 1000)
        return times.time_ms(cell)

    def _no_times(self) -> str:
        named = self._head[self._time]
        lines = (_cells(line, self._delimiter) for line in islice(self._lines(Tally()), 1, None))
        first = next((cells for cells in lines if len(cells) == len(self._head)), None)
        said = f", which begins with {first[self._time][:40]!r}" if first else ""
        return (
            f"no line with a time in the column {named!r}{said}. Times are Unix seconds, or ISO "
            "8601 such as 2026-11-24T08:00:00Z; for seconds since the begin, say when that was "
            "with --started-at"
        )

    def _rows(self, tally: Tally) -> Iterator[tuple[int, list[float]]]:
        last_ms = 0
        for line in islice(self._lines(tally), 1, None):
            cells = _cells(line, self._delimiter)
            time_ms = self._time_ms(cells[self._time]) if len(cells) == len(self._head) else None
            if time_ms is None:
                tally.skip("lines", "no time, or another number of columns", 1, self._path)
            elif time_ms <= last_ms:
                tally.skip("lines", "not later than the line before", 1, self._path)
            else:
                last_ms = time_ms
                yield time_ms, [_number(cells[place]) for place, _ in self._series.values()]

    def _lines(self, tally: Tally) -> Iterator[str]:
        for piece in self._source.lines(self._path, tally):
            lines = piece.decode(errors="replace").splitlines()
            yield from (line for line in lines if line.strip())


def _candidates(source: Source) -> Iterator[str]:
    named = (path for path in source.sizes if path.lower().endswith((".csv", ".csv.gz")))
    return islice(named, _MOST_FILES)


def _is_table(source: Source, path: str) -> bool:
    return len(_head(source, path)) > 1 and not lists_jobs(_first_line(source, path))


def _head(source: Source, path: str) -> list[str]:
    """Return the names of the file's columns; empty if it isn't a table."""
    return [cell.strip() for cell in _cells(_first_line(source, path), _delimiter(source, path))]


def _first_line(source: Source, path: str) -> str:
    text = source.text_beginning(path, _MOST_CHARACTERS)
    return next((line for line in text.splitlines() if line.strip()), "")


def _delimiter(source: Source, path: str) -> str:
    """Return what divides the cells: spreadsheets of many countries write semicolons."""
    first = _first_line(source, path)
    return max(_DELIMITERS, key=first.count)


def _cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of one line: a text of several lines is no number. Empty if it is too
    long.
    """
    try:
        cells = next(csv.reader([line[:_MOST_CHARACTERS]], delimiter=delimiter), [])
    except csv.Error:
        return []
    return cells if len(cells) <= _MOST_COLUMNS else []


def _places(
    head: list[str], mapped: dict[str, str], tally: Tally
) -> tuple[int, dict[str, tuple[int, float]]]:
    """Return the column of the times; and of each series its column, and the factor to its unit."""
    if unknown := sorted(set(mapped) - set(head)):
        raise NotImportableError(
            f"--column {unknown[0]}: no column is named so. Columns: {_listed(head)}"
        )
    if not mapped and _is_of_values(head):
        raise NotImportableError(
            f"the first line has no names of columns: {_listed(head)}. Record without `noheader`, "
            "or write a line with the names above it"
        )
    time: int | None = None
    series: dict[str, tuple[int, float]] = {}
    for place, name in enumerate(head):
        meant, factor = (mapped[name], 1.0) if name in mapped else _meaning(name)
        if meant == TIME:
            is_wanted = name in mapped or TIME not in mapped.values()
            time = place if time is None and is_wanted else time
        elif SERIES_NAME.match(meant) and meant not in series:
            series[meant] = place, factor
        elif name in mapped:
            wrong = "is named twice" if meant in series else "is not a series"
            raise NotImportableError(
                f"--column {name}={meant}: {meant!r} {wrong}. Examples of series: gpu0.busy_pct, "
                "gpu0.memory_used_bytes, host.cpu_busy_pct"
            )
        else:
            tally.skip("columns", "no series of ours", 1, name)
    if time is None:
        raise NotImportableError(
            f"no column of times: map one, for example --column '{_like(head, _TIMELY)}=time'. "
            f"Columns: {_listed(head)}"
        )
    if not series:
        example = f"{_like(head, _BUSY)}=gpu0.busy_pct"
        raise NotImportableError(
            f"no column is a series: map them, for example --column '{example}'. "
            f"Columns: {_listed(head)}"
        )
    return time, series


def _meaning(name: str) -> tuple[str, float]:
    """Return the series that a column of this name is, or `time`, and the factor to its unit."""
    known = (TIME, 1.0) if name.lower() in _TIMED else nvitop.series_of(name)
    return known or (name, 1.0)


def _is_of_values(head: list[str]) -> bool:
    """Return whether the first line has numbers and times in place of names."""
    said = [cell for cell in head if cell]
    return bool(said) and all(cell[0].isdigit() or cell.startswith("[N/A") for cell in said)


def _like(head: list[str], words: tuple[str, ...]) -> str:
    """Return the file's own column that fits an example; the last word if none does."""
    fitting = (name for word in words for name in head if word.lower() in name.lower())
    return next(fitting, words[-1])


def _listed(head: list[str]) -> str:
    return ", ".join(name for name in head[:_MOST_LISTED] if name)


def _number(cell: str) -> float:
    """Return the number, or NaN for what is no number."""
    try:
        number = float(cell)
    except ValueError:
        return math.nan
    return number if abs(number) < 1e18 else math.nan
