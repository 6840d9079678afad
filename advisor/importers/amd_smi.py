"""Output of AMD's tools in a file: `rocm-smi --csv`, and `amd-smi` with `monitor` or `metric`.

Each prints a head and a line for each GPU; recordings repeat both. `amd-smi` with `--watch` writes
Unix seconds. rocm-smi writes no times: a column, the beginning of each line (`ts`), or a line of
its own (`date`) has them, or the person says how far apart the ticks are.

Columns: https://github.com/ROCm/rocm_smi_lib/blob/develop/python_smi_tools/rocm_smi.py and
https://github.com/ROCm/amdsmi/blob/amd-mainline/amdsmi_cli/amdsmi_commands.py.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from advisor.importers import times
from advisor.importers.gpu_rows import MOST_GPUS, GpuRow, GpuRows
from advisor.importers.nvidia_smi_text import to_ms as printed_ms
from advisor.importers.nvidia_smi_text import to_number
from advisor.importers.recording import NotImportableError, RecordedNode
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally

FORMAT = "AMD SMI"
_MOST_FILES = 100
"""The most files that are looked at to find a recording."""
_HEAD_LINES = 20
_MOST_CHARACTERS = 100_000
"""The most characters of a line."""
_MODEL_CHARS = 200
_MIB, _GIB = 2.0**20, 2.0**30
_LEAST_MIB = 1024
"""No GPU that ROCm supports has less memory; smaller sizes without a unit are GiB."""
_SERIES: dict[str, tuple[str, float]] = {
    # rocm-smi
    "gpu use (%)": ("busy_pct", 1.0),
    "gpu memory use (%)": ("memory_controller_busy_pct", 1.0),
    "gpu memory read/write activity (%)": ("memory_controller_busy_pct", 1.0),
    "gpu memory allocated (vram%)": ("memory_used_pct", 1.0),
    "average graphics package power (w)": ("power_watts", 1.0),
    "current socket graphics package power (w)": ("power_watts", 1.0),
    "max graphics package power (w)": ("power_limit_watts", 1.0),
    "temperature (sensor edge) (c)": ("temperature_celsius", 1.0),
    "temperature (sensor junction) (c)": ("temperature_celsius", 1.0),
    "sclk clock speed:": ("sm_clock_mhz", 1.0),
    "mclk clock speed:": ("memory_clock_mhz", 1.0),
    "accumulated energy (uj)": ("energy_joules_total", 1e-6),
    # amd-smi metric
    "gfx_activity": ("busy_pct", 1.0),
    "umc_activity": ("memory_controller_busy_pct", 1.0),
    "socket_power": ("power_watts", 1.0),
    "edge": ("temperature_celsius", 1.0),
    "hotspot": ("temperature_celsius", 1.0),
    "gfx_0_clk": ("sm_clock_mhz", 1.0),
    "mem_0_clk": ("memory_clock_mhz", 1.0),
    "total_energy_consumption": ("energy_joules_total", 1.0),
    # amd-smi monitor
    "gfx": ("busy_pct", 1.0),
    "gfx_util": ("busy_pct", 1.0),
    "mem_util": ("memory_controller_busy_pct", 1.0),
    "power_usage": ("power_watts", 1.0),
    "max_power": ("power_limit_watts", 1.0),
    "hotspot_temperature": ("temperature_celsius", 1.0),
    "gfx_clk": ("sm_clock_mhz", 1.0),
    "gfx_clock": ("sm_clock_mhz", 1.0),
    "mem_clock": ("memory_clock_mhz", 1.0),
    "vram_percent": ("memory_used_pct", 1.0),
    # what scripts around either name them
    "gpu_use_percent": ("busy_pct", 1.0),
    "power_watts": ("power_watts", 1.0),
    "power_cap_watts": ("power_limit_watts", 1.0),
}
"""A column in lower case -> our series of the GPU, and the factor to its unit. Of two columns of
one series, the first with a value counts."""
_USED = {"vram total used memory (b)": 1.0, "vram_used_bytes": 1.0}
_USED |= {"used_vram": _MIB, "vram_used": _MIB}
_SIZES = {"vram total memory (b)": 1.0, "vram_total_bytes": 1.0}
_SIZES |= {"total_vram": _MIB, "vram_total": _MIB}
"""Columns of memory -> bytes of their unit, if a cell names none."""
_UNITS = {"B": 1.0, "KB": 2.0**10, "MB": _MIB, "GB": _GIB, "MiB": _MIB, "GiB": _GIB}
_MODELS = ("card series", "card model", "market_name")
_TIMES = ("timestamp", "time", "date", "datetime")
_GPU_COLUMNS, _PARTITION = ("device", "gpu"), "xcp"
_GPU = re.compile(r"(?:card|gpu)?(\d{1,3})", re.IGNORECASE)
_ZONE = re.compile(r" (?:UTC|GMT|[A-Z]{3,4}) (?=\d{4}$)")
_KNOWN = _SERIES.keys() | _USED.keys() | _SIZES.keys()


def recognises(source: Source) -> bool:
    """Return whether a file begins with the head of either tool."""
    return any(_head_of(source, path) for path in _candidates(source))


def open_recording(source: Source, stated: StatedFacts, tally: Tally) -> AmdSmiRecording:
    """Open the first recording.

    Raises:
        NotImportableError: it has no times and nobody says them, or no line with a GPU.
    """
    return AmdSmiRecording(source, stated, tally)


@dataclass(frozen=True)
class _Head:
    """The names of a line's cells, in lower case."""

    columns: tuple[str, ...]

    @cached_property
    def gpu(self) -> int:
        return next(self.columns.index(name) for name in _GPU_COLUMNS if name in self.columns)

    @cached_property
    def time(self) -> int | None:
        return next((n for n, name in enumerate(self.columns) if name in _TIMES), None)

    @cached_property
    def partition(self) -> int | None:
        return self.columns.index(_PARTITION) if _PARTITION in self.columns else None

    def values(self, cells: Sequence[str]) -> dict[str, float]:
        """Return our series; NaN: a column names it, and has no number."""
        found: dict[str, float] = {}
        for name, cell in zip(self.columns, cells, strict=True):
            if name in _SERIES:
                series, factor = _SERIES[name]
                if not math.isfinite(found.get(series, math.nan)):
                    found[series] = to_number(cell.strip("()")) * factor
        used = self._bytes(cells, _USED)
        return found if used is None else found | {"memory_used_bytes": used}

    def model(self, cells: Sequence[str]) -> tuple[str, int]:
        """Return the model, and the bytes of its memory; empty and 0: unsaid."""
        named = (cells[self.columns.index(name)] for name in _MODELS if name in self.columns)
        name = next((cell for cell in named if cell[:1].isalpha() and cell != "N/A"), "")
        size = self._bytes(cells, _SIZES)
        is_size = size is not None and 0 < size < 2**50
        return name[:_MODEL_CHARS], round(size) if size is not None and is_size else 0

    def _bytes(self, cells: Sequence[str], columns: dict[str, float]) -> float | None:
        for name, unit in columns.items():
            if name in self.columns:
                cell = cells[self.columns.index(name)]
                said = _UNITS.get(cell.lstrip("0123456789.").strip())
                return to_number(cell) * (said or self._unit(cells, unit))
        return None

    def _unit(self, cells: Sequence[str], unit: float) -> float:
        """Return the bytes of a size without a unit: some versions write GiB in place of MiB."""
        total = next((self.columns.index(name) for name in _SIZES if name in self.columns), None)
        is_small = total is not None and 0 < to_number(cells[total]) < _LEAST_MIB
        return _GIB if unit == _MIB and is_small else unit


class AmdSmiRecording(GpuRows):
    """The GPUs of one machine. See `recording.Recording`."""

    format = FORMAT

    def __init__(self, source: Source, stated: StatedFacts, tally: Tally) -> None:
        super().__init__(tally)
        self._source, self._tally = source, tally
        self._path, *others = (path for path in _candidates(source) if _head_of(source, path))
        tally.skip("files", "a recording of another machine or time; import it alone", len(others))
        head = _head_of(source, self._path)
        assert head is not None  # noqa: S101 - the file was chosen by it
        for place, name in enumerate(head.columns):
            known = {*_KNOWN, *_MODELS, *_TIMES, *_GPU_COLUMNS, _PARTITION}
            if name not in known and place != head.gpu:
                tally.skip("columns", "no series of ours", 1, name)
        first = next(self.rows(Tally()), None)
        if first is None:
            self.count_ticks(stated, "record with `amd-smi monitor --csv --watch 1`")
            first = next(self.rows(Tally()), None)
        if first is None:
            next(self.rows(tally), None)  # counts the lines that are none
            raise NotImportableError("no line with a GPU and a value for each column")
        self.number_gpus()
        self.nodes = [RecordedNode("machine", first.time_ms)]
        tally.note("Times that name no zone count as UTC.")

    def rows(self, tally: Tally) -> Iterator[GpuRow]:
        clock = self.tick_clock()
        for head, cells, said_ms in self._lines(tally):
            gpu = _gpu(cells[head.gpu])
            if head.partition is not None and cells[head.partition] not in ("0", "N/A", ""):
                tally.skip("lines", "of a partition of a GPU", 1, self._path)
                continue
            if self._interval_ms and gpu is not None:
                said_ms = clock(gpu)
            if gpu is None or said_ms is None:
                tally.skip("lines", "no time or GPU", 1, self._path)
                continue
            yield GpuRow(said_ms, gpu, head.values(cells), head.model(cells))

    def _lines(self, tally: Tally) -> Iterator[tuple[_Head, list[str], int | None]]:
        """Yield the head of each line, its cells, and its time."""
        head, above_ms = None, None
        for piece in self._source.lines(self._path, tally):
            for line in piece.decode(errors="replace").splitlines():
                text = line.strip()
                if not text or text.startswith(("=", "WARNING")):
                    continue
                if (alone_ms := _time_ms(text)) is not None:
                    above_ms = alone_ms
                    continue
                before, cells = _cells(text)
                if (found := _head(cells)) is not None:
                    head = found
                elif head is not None and head.gpu < len(cells) <= len(head.columns):
                    cells += [""] * (len(head.columns) - len(cells))
                    own = cells[head.time] if head.time is not None else before
                    yield head, cells, _time_ms(own) if own else above_ms
                else:
                    tally.skip("lines", "no GPU, or more columns than the head", 1, self._path)


def _candidates(source: Source) -> Iterator[str]:
    named = (path for path in source.sizes if path.endswith((".csv", ".txt", ".log", ".out")))
    return islice(named, _MOST_FILES)


def _head_of(source: Source, path: str) -> _Head | None:
    lines = (line for line in source.text_beginning(path).splitlines() if line.strip())
    heads = (_head(_cells(line.strip())[1]) for line in islice(lines, _HEAD_LINES))
    return next(filter(None, heads), None)


def _head(cells: Sequence[str]) -> _Head | None:
    columns = tuple(cell.strip().lower() for cell in cells)
    is_head = bool(set(columns) & set(_GPU_COLUMNS)) and bool(set(columns) & _KNOWN)
    return _Head(columns) if is_head else None


def _cells(line: str) -> tuple[str, list[str]]:
    """Return what `ts` wrote before the line, and its cells."""
    try:
        cells = next(csv.reader([line[:_MOST_CHARACTERS]], skipinitialspace=True), [])
    except csv.Error:
        return "", []
    before, _, first = cells[0].rpartition(" ") if cells else ("", "", "")
    is_stamped = first.lower() in _GPU_COLUMNS or _GPU.fullmatch(first)
    if before and is_stamped:
        return before.strip("[] "), [first, *(cell.strip() for cell in cells[1:])]
    return "", [cell.strip() for cell in cells]


def _gpu(cell: str) -> int | None:
    found = _GPU.fullmatch(cell)
    return int(found[1]) if found and int(found[1]) < MOST_GPUS else None


def _time_ms(said: str) -> int | None:
    """Return the Unix milliseconds of a time as `ts`, `date` and AMD's tools write it."""
    known = times.time_ms(said)
    return printed_ms(_ZONE.sub(" ", said), day_first=False) if known is None else known
