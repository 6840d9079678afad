"""Output of `dcgmi dmon` in a file: a line for each GPU and tick, and the head repeatedly.

The lines have no times. Either each begins with one (`dcgmi dmon ... | ts '%Y-%m-%dT%H:%M:%S%z'`),
or the person says when the first was printed and how far apart they are. Columns have the short
names of DCGM's fields (`dcgmi dmon --list`), as
https://github.com/NVIDIA/DCGM/blob/master/dcgmlib/src/dcgm_fields.cpp has them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from advisor.importers import times
from advisor.importers.activity import MOST_GPUS
from advisor.importers.recording import (
    Floats,
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
from advisor.store.index import to_ms

FORMAT = "dcgmi dmon"
_MOST_FILES = 100
"""Read to find a recording."""
_TICKS_A_PART = 3600
_MOST_CHARACTERS = 4_000
"""The most characters of a line."""
_SUFFIXES = (".txt", ".log", ".out", ".dmon", ".csv")
_ENTITY, _GPU = "#Entity", "GPU"
_OTHERS = {"GPU-I", "GPU-CI", "vGPU", "Switch", "Link", "CPU", "Core"}
"""Entities that aren't whole GPUs."""
_MOST_TIME_WORDS = 4
"""A line's time is at most `Nov 24 2026 08:00:00`."""
_STOPPED = "dmon was stopped"
_MIB = 2.0**20
_SERIES: dict[str, tuple[str, float]] = {
    "GPUTL": ("busy_pct", 1.0),
    "MCUTL": ("memory_controller_busy_pct", 1.0),
    "FBUSD": ("memory_used_bytes", _MIB),
    "POWER": ("power_watts", 1.0),
    "PMLMT": ("power_limit_watts", 1.0),
    "TOTEC": ("energy_joules_total", 0.001),
    "TMPTR": ("temperature_celsius", 1.0),
    "SMCLK": ("sm_clock_mhz", 1.0),
    "MMCLK": ("memory_clock_mhz", 1.0),
    "SMACT": ("sm_active_pct", 100.0),
    "SMOCC": ("sm_occupancy_pct", 100.0),
    "TENSO": ("tensor_active_pct", 100.0),
    "DRAMA": ("dram_active_pct", 100.0),
    "FP64A": ("fp64_active_pct", 100.0),
    "FP32A": ("fp32_active_pct", 100.0),
    "FP16A": ("fp16_active_pct", 100.0),
}
"""A field's short name -> our series of the GPU, and the factor to its unit."""


def recognises(source: Source) -> bool:
    """Return whether a file begins with dmon's head."""
    return any(_columns_of(source, path) for path in _candidates(source))


def open_recording(source: Source, stated: StatedFacts, tally: Tally) -> DcgmDmonRecording:
    """Open the first recording.

    Raises:
        NotImportableError: it has no times and nobody says them, or no series of ours.
    """
    return DcgmDmonRecording(source, stated, tally)


class _Row(NamedTuple):
    gpu: int
    time_ms: int
    """0: the line has no time."""
    values: list[float]
    """The values in the order of the head's columns; NaN for missing ones."""


class DcgmDmonRecording(SamplesOnly):
    """The GPUs of one machine. See `recording.Recording`."""

    format = FORMAT

    def __init__(self, source: Source, stated: StatedFacts, tally: Tally) -> None:
        super().__init__(tally)
        self._source, self._tally = source, tally
        self._path, *others = (path for path in _candidates(source) if _columns_of(source, path))
        tally.skip("files", "a recording of another machine or time; import it alone", len(others))
        self._columns = _columns_of(source, self._path)
        if not set(self._columns) & _SERIES.keys():
            raise NotImportableError(f"none of the columns {', '.join(_SERIES)}")
        for name in self._columns:
            if name not in _SERIES:
                tally.skip("columns", "no series of ours", 1, name)
        first = next(self._rows(Tally()), None)
        if first is None:
            next(self._rows(tally), None)  # counts the lines that are none
            raise NotImportableError("no line with a GPU and a value for each column")
        self._interval_ms = 0 if first.time_ms else _interval_ms(stated)
        self.nodes = [RecordedNode("machine", first.time_ms or self._began_ms(stated))]

    def parts(self, node: RecordedNode) -> Iterator[Part]:
        """Yield the ticks, an hour at a time of those of a second."""
        ticks = self._timed(node.started_ms)
        cadence_ms = self._interval_ms
        while batch := list(islice(ticks, _TICKS_A_PART)):
            times_ms = np.array([at for at, _ in batch], dtype="int64")
            if len(times_ms) > 1 and not cadence_ms:
                cadence_ms = cadence(times_ms)
            yield Samples(cadence_ms or 1000, times_ms, self._samples([rows for _, rows in batch]))

    def _began_ms(self, stated: StatedFacts) -> int:
        self._tally.note(
            "The lines have no times: they count as printed at the interval that was stated."
        )
        if stated.started_at is None:
            self._tally.note(
                "The files have no time of day. The run counts as begun when it was imported."
            )
        return to_ms(stated.started_at or stated.imported_at)

    def _samples(self, ticks: Sequence[Sequence[_Row]]) -> dict[str, Floats]:
        known = [(n, *_SERIES[name]) for n, name in enumerate(self._columns) if name in _SERIES]
        columns: dict[str, Floats] = {}
        for number, rows in enumerate(ticks):
            for row in rows:
                for place, series, factor in known:
                    name = f"gpu{row.gpu}.{series}"
                    if name not in columns:
                        columns[name] = np.full(len(ticks), np.nan)
                    columns[name][number] = round(row.values[place] * factor, 3)
        self._tally.take("samples", sum(int(np.isfinite(v).sum()) for v in columns.values()))
        return columns

    def _timed(self, began_ms: int) -> Iterator[tuple[int, list[_Row]]]:
        last_ms = 0
        for number, rows in enumerate(self._ticks()):
            at_ms = began_ms + number * self._interval_ms if self._interval_ms else rows[0].time_ms
            if at_ms > last_ms:
                last_ms = at_ms
                yield at_ms, rows
            else:
                self._tally.skip("lines", "not later than the line before", len(rows), self._path)

    def _ticks(self) -> Iterator[list[_Row]]:
        """Yield the rows of each tick: GPUs are printed in the same order at each."""
        place: dict[int, int] = {}
        tick: list[_Row] = []
        for row in self._rows(self._tally):
            here = place.setdefault(row.gpu, len(place))
            if tick and here <= place[tick[-1].gpu]:
                yield tick
                tick = []
            tick.append(row)
        if tick:
            yield tick

    def _rows(self, tally: Tally) -> Iterator[_Row]:
        for words in self._words(tally):
            place = next((n for n, word in enumerate(words) if word in _OTHERS | {_GPU}), None)
            if place is None or place > _MOST_TIME_WORDS:
                if _is_head(words) or _STOPPED in " ".join(words):
                    continue
                tally.skip("lines", "no entity", 1, self._path)
            elif words[place] in _OTHERS:
                tally.skip("lines", "of a MIG slice, a switch or another entity", 1, words[place])
            elif (row := self._row(words, place)) is not None:
                yield row
            else:
                tally.skip("lines", "no GPU or time, or another number of values", 1, self._path)

    def _words(self, tally: Tally) -> Iterator[list[str]]:
        for piece in self._source.lines(self._path, tally):
            for line in piece.decode(errors="replace").splitlines():
                if words := line[:_MOST_CHARACTERS].split():
                    yield words

    def _row(self, words: Sequence[str], place: int) -> _Row | None:
        said, values = words[place + 1 : place + 2], words[place + 2 :]
        gpu = int(said[0]) if said and said[0].isdecimal() and len(said[0]) < 4 else MOST_GPUS
        at_ms = times.time_ms(" ".join(words[:place]).strip("[]")) if place else 0
        if gpu >= MOST_GPUS or at_ms is None or len(values) != len(self._columns):
            return None
        return _Row(gpu, at_ms, [_number(value) for value in values])


def _interval_ms(stated: StatedFacts) -> int:
    if not stated.interval_seconds:
        raise NotImportableError(
            "the lines have no times: say the delay of `dcgmi dmon -d` with --interval-seconds, "
            "and when it began with --started-at; or record with `| ts '%Y-%m-%dT%H:%M:%S%z'`"
        )
    return max(round(stated.interval_seconds * 1000), 1)


def _candidates(source: Source) -> Iterator[str]:
    return islice((path for path in source.sizes if path.endswith(_SUFFIXES)), _MOST_FILES)


def _columns_of(source: Source, path: str) -> tuple[str, ...]:
    """Return the columns that the head names, which is the first line; empty if it is none."""
    text = source.beginning(path).decode(errors="replace")
    lines = (line for line in text.splitlines() if line.strip())
    return _columns(next(lines, "").split())


def _columns(words: list[str]) -> tuple[str, ...]:
    place = next((n for n, word in enumerate(words) if word == _ENTITY), None)
    is_head = place is not None and place <= _MOST_TIME_WORDS
    return tuple(words[place + 1 :]) if is_head and place is not None else ()


def _is_head(words: Iterable[str]) -> bool:
    """Return whether the words begin either of the head's lines."""
    first = list(islice(words, _MOST_TIME_WORDS + 1))
    return _ENTITY in first or "ID" in first


def _number(said: str) -> float:
    """Return the number, or NaN for `N/A` and whatever else is no number."""
    try:
        number = float(said)
    except ValueError:
        return math.nan
    return number if 0 <= number < 1e15 else math.nan
