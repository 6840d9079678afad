"""What `nvidia-smi` printed into a file: its query as CSV, or `dmon -o DT`.

Both print a line for each GPU and tick. The lines of one tick are a few milliseconds apart; they
count at the time of the first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice

import numpy as np

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
from advisor.importers.stated import Stated
from advisor.importers.tally import Tally

FORMAT = "nvidia-smi"
_MOST_FILES = 100
"""Read to find a recording."""
_TICKS_A_PART = 3600
_MOST_GPUS = 64
_MIB = 2.0**20
_QUERIED: dict[str, tuple[str, float]] = {
    "utilization.gpu": ("busy_pct", 1.0),
    "utilization.memory": ("memory_controller_busy_pct", 1.0),
    "memory.used": ("memory_used_bytes", _MIB),
    "power.draw": ("power_watts", 1.0),
    "power.draw.instant": ("power_watts", 1.0),
    "power.draw.average": ("power_watts", 1.0),
    "power.limit": ("power_limit_watts", 1.0),
    "enforced.power.limit": ("power_limit_watts", 1.0),
    "temperature.gpu": ("temperature_celsius", 1.0),
    "clocks.sm": ("sm_clock_mhz", 1.0),
    "clocks.current.sm": ("sm_clock_mhz", 1.0),
    "clocks.mem": ("memory_clock_mhz", 1.0),
    "clocks.current.memory": ("memory_clock_mhz", 1.0),
    "pcie.link.gen.current": ("pcie_generation_count", 1.0),
    "pcie.link.gen.gpucurrent": ("pcie_generation_count", 1.0),
    "pcie.link.width.current": ("pcie_lanes_count", 1.0),
}
"""A field of the query -> our series of the GPU, and the factor to its unit."""
_MONITORED: dict[str, tuple[str, float]] = {
    "sm": ("busy_pct", 1.0),
    "mem": ("memory_controller_busy_pct", 1.0),
    "fb": ("memory_used_bytes", _MIB),
    "pwr": ("power_watts", 1.0),
    "gtemp": ("temperature_celsius", 1.0),
    "pclk": ("sm_clock_mhz", 1.0),
    "mclk": ("memory_clock_mhz", 1.0),
}
"""A column of `dmon`, likewise."""
_NUMBERED, _IDENTIFIED = ("index", "gpu"), ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id")
"""Columns that say which GPU."""
_IDENTITY = {*_NUMBERED, *_IDENTIFIED, "timestamp", "#date", "time", "name", "gpu_name"}
_IDENTITY |= {"driver_version", "memory.total", "count"}
"""They say which GPU and when, or never change."""
_UNIT = re.compile(r"\[[^\[\]]*\]\Z")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_TIMES = ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%Y%m%d %H:%M:%S")


def recognises(source: Source) -> bool:
    """Whether a file begins with the head of either output."""
    return any(_head_of(source, path) for path in _candidates(source))


def opened(source: Source, stated: Stated, tally: Tally) -> NvidiaSmiRecording:
    """Open the first recording.

    Raises:
        NotImportableError: it names no times, or nothing that is a series of ours.
    """
    del stated
    return NvidiaSmiRecording(source, tally)


@dataclass(frozen=True)
class _Head:
    """Where a line has what."""

    columns: tuple[str, ...]
    is_query: bool

    def cells(self, line: str) -> list[str]:
        return [cell.strip() for cell in line.split(",")] if self.is_query else line.split()

    @cached_property
    def number(self) -> int | None:
        """The column with the GPU's number."""
        return self._place(_NUMBERED)

    @cached_property
    def identity(self) -> int | None:
        """The column with what names the GPU."""
        return self._place(_IDENTIFIED)

    @cached_property
    def times(self) -> tuple[int, ...]:
        """The columns that make up the time; empty: there are none."""
        wanted = ("timestamp",) if self.is_query else ("#date", "time")
        known = set(wanted) <= set(self.columns)
        return tuple(self.columns.index(name) for name in wanted) if known else ()

    def _place(self, names: Iterable[str]) -> int | None:
        return next((self.columns.index(name) for name in names if name in self.columns), None)

    @cached_property
    def series(self) -> list[tuple[int, str, float]]:
        known = _QUERIED if self.is_query else _MONITORED
        found: dict[str, tuple[int, str, float]] = {}
        for place, name in enumerate(self.columns):
            if name in known:
                series, factor = known[name]
                found.setdefault(series, (place, series, factor))
        return list(found.values())


class NvidiaSmiRecording(SamplesOnly):
    """The GPUs of one machine. See `recording.Recording`."""

    format = FORMAT

    def __init__(self, source: Source, tally: Tally) -> None:
        super().__init__(tally)
        self._source, self._tally = source, tally
        self._path, *others = (path for path in _candidates(source) if _head_of(source, path))
        head = _head_of(source, self._path)
        assert head is not None  # noqa: S101 - the file was chosen by it
        self._head = head
        tally.skip("files", "a recording of another machine or time; import it alone", len(others))
        self._check()
        self._gpus: dict[str, int] = {}
        first = next(self._rows(Tally()), None)
        if first is None:
            raise NotImportableError("no line with a time and a GPU")
        self.nodes = [RecordedNode("machine", first.time_ms)]
        tally.note("The times name no zone. They count as UTC.")

    def parts(self, node: RecordedNode) -> Iterator[Part]:
        """Ticks, an hour of those of a second at a time."""
        del node
        self._gpus = {}
        ticks = self._ticks()
        cadence_ms = 0
        while batch := list(islice(ticks, _TICKS_A_PART)):
            times = np.array([tick[0].time_ms for tick in batch], dtype="int64")
            if len(times) > 1 and not cadence_ms:
                cadence_ms = cadence(times)
            yield Samples(cadence_ms or 1000, times, self._columns(batch))

    def _columns(self, batch: Sequence[Sequence[_Row]]) -> dict[str, Floats]:
        columns: dict[str, Floats] = {}
        for number, tick in enumerate(batch):
            for row in tick:
                for (_, series, _), value in zip(self._head.series, row.values, strict=True):
                    name = f"gpu{row.gpu}.{series}"
                    if name not in columns:
                        columns[name] = np.full(len(batch), np.nan)
                    columns[name][number] = value
        taken = sum(int(np.isfinite(values).sum()) for values in columns.values())
        self._tally.take("samples", taken)
        return columns

    def _ticks(self) -> Iterator[list[_Row]]:
        """A tick ends where a GPU is named again."""
        tick: dict[int, _Row] = {}
        last_ms: dict[int, int] = {}
        for row in self._rows(self._tally):
            began_ms = next(iter(tick.values())).time_ms if tick else 0
            if row.time_ms < began_ms or row.time_ms <= last_ms.get(row.gpu, 0):
                self._tally.skip("lines", "not later than the line before", 1, self._path)
                continue
            last_ms[row.gpu] = row.time_ms
            if row.gpu in tick:
                yield list(tick.values())
                tick = {}
            tick[row.gpu] = row
        if tick:
            yield list(tick.values())

    def _rows(self, tally: Tally) -> Iterator[_Row]:
        for piece in self._source.lines(self._path, tally):
            for line in piece.decode(errors="replace").splitlines():
                if not line.strip() or _head(line):
                    continue
                row = self._row(self._head.cells(line))
                if row is not None:
                    yield row
                elif not line.lstrip().startswith("#"):  # the second line of dmon's heads
                    tally.skip("lines", "no time, GPU or values", 1, self._path)

    def _row(self, cells: list[str]) -> _Row | None:
        if len(cells) != len(self._head.columns):
            return None
        time_ms, gpu = self._time_ms(cells), self._gpu(cells)
        if time_ms is None or gpu is None:
            return None
        values = [_number(cells[place]) * factor for place, _, factor in self._head.series]
        return _Row(time_ms, gpu, values)

    def _time_ms(self, cells: Sequence[str]) -> int | None:
        said = " ".join(cells[place] for place in self._head.times)
        for form in _TIMES:
            try:
                moment = datetime.strptime(said, form).replace(tzinfo=UTC)
            except ValueError:
                continue
            return round(moment.timestamp() * 1000)
        return None

    def _gpu(self, cells: Sequence[str]) -> int | None:
        """By its number, else by its place among those named; None: too many."""
        if (place := self._head.number) is not None:
            said = cells[place]
            is_number = said.isdecimal() and len(said) < 4
            return int(said) if is_number and int(said) < _MOST_GPUS else None
        if (place := self._head.identity) is None or (
            cells[place] not in self._gpus and len(self._gpus) == _MOST_GPUS
        ):
            return None
        return self._gpus.setdefault(cells[place], len(self._gpus))

    def _check(self) -> None:
        head = self._head
        if not head.times:
            add = "add `timestamp` to --query-gpu" if head.is_query else "record with `dmon -o DT`"
            raise NotImportableError(f"no times: {add}")
        if head.number is None and head.identity is None:
            raise NotImportableError("nothing says which GPU: add `index` to --query-gpu")
        if not head.series:
            known = ", ".join(_QUERIED if head.is_query else _MONITORED)
            raise NotImportableError(f"none of the columns {known}")
        used = {head.columns[place] for place, _, _ in head.series}
        for name in head.columns:
            if name not in used | _IDENTITY:
                self._tally.skip("columns", "no series of ours", 1, name)


@dataclass(frozen=True)
class _Row:
    time_ms: int
    gpu: int
    values: list[float]
    """In the order of the head's series; NaN: missing."""


def _candidates(source: Source) -> Iterator[str]:
    named = (path for path in source.sizes if path.endswith((".csv", ".txt", ".log")))
    return islice(named, _MOST_FILES)


def _head_of(source: Source, path: str) -> _Head | None:
    text = source.beginning(path).decode(errors="replace")
    lines = (line for line in text.splitlines() if line.strip())
    return _head(next(lines, ""))


def _head(line: str) -> _Head | None:
    """None: the line is no head."""
    if line.lstrip().startswith("#"):
        columns = tuple(word.lower() for word in line.replace("# ", "#", 1).split())
        columns = tuple(name.removeprefix("#") if name == "#gpu" else name for name in columns)
        return _Head(columns, False) if {"gpu", "sm"} <= set(columns) else None
    columns = tuple(_UNIT.sub("", cell.strip()).rstrip() for cell in line.split(","))
    return _Head(columns, True) if set(columns) & _QUERIED.keys() else None


def _number(cell: str) -> float:
    """NaN for `[N/A]`, `-` and whatever else is no number. Units are cut off."""
    found = _NUMBER.match(cell)
    return float(found[0]) if found and len(cell) < 40 else math.nan
