"""Heads, times and cells of what `nvidia-smi` prints, however it was saved."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property

from advisor.importers import times

_MIB = 2.0**20
QUERIED: dict[str, tuple[str, float]] = {
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
MONITORED: dict[str, tuple[str, float]] = {
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
_NAMES, _SIZES = ("name", "gpu_name"), ("memory.total",)
IDENTITY = {*_NUMBERED, *_IDENTIFIED, *_NAMES, *_SIZES, "timestamp", "#date", "time"}
IDENTITY |= {"driver_version", "count"}
"""The columns that say which GPU and when, or that never change."""
_UNIT = re.compile(r"\[[^\[\]]*\]\Z")
_NUMBER = re.compile(r"-?\d+(?:[.,]\d+)?")
_BEYOND_ALL = 1e18
"""A number that no GPU reports: a damaged one."""
_SPREADSHEET = re.compile(r"[;\t]")
_TIMES = (
    *("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S", "%Y%m%d %H:%M:%S"),
    *("%Y-%m-%d %H:%M:%S.%f", "%Y-%m-%d %H:%M:%S"),
    *("%Y-%m-%dT%H:%M:%S.%f", "%Y-%m-%dT%H:%M:%S"),
    *("%d.%m.%Y %H:%M:%S.%f", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M"),
    *("%a %b %d %H:%M:%S %Y",),
)
_MONTH_FIRST = tuple(
    f"%m/%d/%Y {clock}" for clock in ("%H:%M:%S.%f", "%H:%M:%S", "%H:%M", "%I:%M:%S %p")
)
_DAY_FIRST = tuple(form.replace("%m/%d", "%d/%m") for form in _MONTH_FIRST)
_DAY_AND_MONTH = re.compile(r"(\d{1,2})/(\d{1,2})/\d{4} ")


@dataclass(frozen=True)
class SmiHead:
    """The places of the values in a line."""

    columns: tuple[str, ...]
    is_query: bool
    delimiter: str = ","

    def cells(self, line: str) -> list[str]:
        if not self.is_query:
            return line.split()
        return [cell.strip().strip('"') for cell in line.split(self.delimiter)]

    @cached_property
    def number(self) -> int | None:
        """Return the column with the GPU's number."""
        return self._place(_NUMBERED)

    @cached_property
    def identity(self) -> int | None:
        """Return the column with what names the GPU."""
        return self._place(_IDENTIFIED)

    @cached_property
    def model(self) -> int | None:
        return self._place(_NAMES)

    @cached_property
    def memory(self) -> int | None:
        """Return the column with the size of its memory."""
        return self._place(_SIZES)

    @cached_property
    def times(self) -> tuple[int, ...]:
        """Return the columns that make up the time; empty if there are none."""
        wanted = ("timestamp",) if self.is_query else ("#date", "time")
        known = set(wanted) <= set(self.columns)
        return tuple(self.columns.index(name) for name in wanted) if known else ()

    def _place(self, names: Iterable[str]) -> int | None:
        return next((self.columns.index(name) for name in names if name in self.columns), None)

    @cached_property
    def series(self) -> list[tuple[int, str, float]]:
        known = QUERIED if self.is_query else MONITORED
        found: dict[str, tuple[int, str, float]] = {}
        for place, name in enumerate(self.columns):
            if name in known:
                series, factor = known[name]
                found.setdefault(series, (place, series, factor))
        return list(found.values())

    def said_time(self, cells: Sequence[str]) -> str:
        return " ".join(cells[place] for place in self.times)


def head_from(line: str) -> SmiHead | None:
    """Return the head; None: the line is none."""
    if line.lstrip().startswith("#"):
        columns = tuple(word.lower() for word in line.replace("# ", "#", 1).split())
        columns = tuple(name.removeprefix("#") if name == "#gpu" else name for name in columns)
        return SmiHead(columns, False) if {"gpu", "sm"} <= set(columns) else None
    spread = _SPREADSHEET.search(line)
    delimiter = spread[0] if spread else ","
    columns = tuple(_column(cell) for cell in line.split(delimiter))
    return SmiHead(columns, True, delimiter) if set(columns) & QUERIED.keys() else None


def _column(cell: str) -> str:
    return _UNIT.sub("", cell.strip().strip('"')).rstrip()


def to_number(cell: str) -> float:
    """Return NaN for `[N/A]`, `ERR!`, `-` and whatever else is no number of a GPU. Units are cut
    off.
    """
    found = _NUMBER.match(cell)
    number = float(found[0].replace(",", ".")) if found and len(cell) < 40 else math.nan
    return number if abs(number) < _BEYOND_ALL else math.nan


def is_day_first(said: Iterable[str]) -> bool | None:
    """Return which of `25/10/2026` is the day, by times that can be only one; None: it's open."""
    for time in said:
        if (found := _DAY_AND_MONTH.match(time)) and int(found[1]) > 12:
            return True
        if found and int(found[2]) > 12:
            return False
    return None


def to_ms(said: str, day_first: bool) -> int | None:
    """Return the Unix milliseconds of a time in UTC; None: it is no time."""
    forms: tuple[str, ...] = _TIMES
    if "/" in said[:3]:
        forms = _DAY_FIRST if day_first else _MONTH_FIRST
    for form in forms:
        try:
            moment = datetime.strptime(said, form).replace(tzinfo=UTC)
        except ValueError:
            continue
        return round(moment.timestamp() * 1000)
    return times.time_ms(said)
