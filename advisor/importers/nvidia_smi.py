"""Output of `nvidia-smi` in a file: its query as CSV, or `dmon -o DT`.

Both print a line for each GPU and tick. The lines of one tick are a few milliseconds apart; they
count at the time of the first. Where nothing names the GPUs, they are told by their order.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from advisor.importers.gpu_rows import MOST_GPUS, GpuRow, GpuRows
from advisor.importers.nvidia_smi_text import (
    IDENTITY,
    MONITORED,
    QUERIED,
    SmiHead,
    head_from,
    is_day_first,
    to_ms,
    to_number,
)
from advisor.importers.recording import Floats, NotImportableError, RecordedNode
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally

FORMAT = "nvidia-smi"
_MOST_FILES = 100
"""Read to find a recording."""
_HEAD_LINES = 20
"""The number of lines that the head is among: some files begin with a warning."""
_LOOKED_AT = 5_000
"""Rows by which it is told how many belong to a tick, and which of `10/11/2026` is the day."""
_PAUSE_SHARE, _ALIKE_SHARE = 0.94, 0.9
"""A tick of 16 GPUs has a pause after every 16th row. So many of the ticks must have as many rows
as most have, for those to be GPUs."""
_MODEL_CHARS = 200
_MIB = 2**20
_ZONE = re.compile(r":\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)\Z")


def recognises(source: Source) -> bool:
    """Return whether a file begins with the head of either output."""
    return any(_head_of(source, path) for path in _candidates(source))


def open_recording(source: Source, stated: StatedFacts, tally: Tally) -> NvidiaSmiRecording:
    """Open the first recording.

    Raises:
        NotImportableError: it names no times and nobody says them, or nothing that is a series of
            ours.
    """
    return NvidiaSmiRecording(source, stated, tally)


class NvidiaSmiRecording(GpuRows):
    """The GPUs of one machine. See `recording.Recording`."""

    format = FORMAT

    def __init__(self, source: Source, stated: StatedFacts, tally: Tally) -> None:
        super().__init__(tally)
        self._source, self._tally = source, tally
        self._path, *others = (path for path in _candidates(source) if _head_of(source, path))
        head = _head_of(source, self._path)
        assert head is not None  # noqa: S101 - the file was chosen by it
        self._head = head
        tally.skip("files", "a recording of another machine or time; import it alone", len(others))
        self._check(stated)
        self._gpus: dict[str, int] = {}
        self._is_day_first = self._is_read_day_first()
        self._in_tick, self._tick_ms = self._order() if self._is_unnamed else (1, 0.0)
        first = next(self.rows(Tally()), None)
        if first is None:
            next(self.rows(tally), None)  # counts the lines that are none
            raise NotImportableError("no line with a time and a GPU")
        self.number_gpus()
        self.nodes = [RecordedNode("machine", first.time_ms)]
        if not self._interval_ms and not self._names_zone():
            tally.note("The times name no zone. They count as UTC.")

    def rows(self, tally: Tally) -> Iterator[GpuRow]:
        before_ms = order = 0
        clock = self.tick_clock()
        for cells in self._lines(tally):
            time_ms = self._time_ms(cells)
            is_next = time_ms is not None and time_ms - before_ms <= self._tick_ms
            order = order + 1 if is_next and order + 1 < self._in_tick else 0
            gpu = order if self._is_unnamed else self._gpu(cells)
            if self._interval_ms and gpu is not None:
                time_ms = clock(gpu)
            if time_ms is None or gpu is None:
                tally.skip("lines", "no time, GPU or values", 1, self._path)
                continue
            before_ms = time_ms
            series = self._head.series
            values = {name: to_number(cells[place]) * factor for place, name, factor in series}
            yield GpuRow(time_ms, gpu, values, self._model(cells))

    def _lines(self, tally: Tally) -> Iterator[list[str]]:
        """Yield the cells of each line. Another query's head may come in between."""
        head = self._head = self._first_head
        for piece in self._source.lines(self._path, tally):
            for line in piece.decode(errors="replace").splitlines():
                if not line.strip():
                    continue
                if (found := head_from(line)) is not None:
                    self._head = head = found if _is_like(found, head) else head
                    continue
                if line.lstrip().startswith("#"):  # the second line of dmon's heads
                    continue
                cells = head.cells(line)
                if len(cells) == len(head.columns):
                    yield cells
                else:
                    tally.skip("lines", "no time, GPU or values", 1, self._path)

    def _time_ms(self, cells: Sequence[str]) -> int | None:
        return to_ms(self._head.said_time(cells), self._is_day_first)

    def _names_zone(self) -> bool:
        first = next(self._lines(Tally()), None)
        said = "" if first is None else self._head.said_time(first)
        return said[:10].isdecimal() or bool(_ZONE.search(said))

    def _gpu(self, cells: Sequence[str]) -> int | None:
        """Return the GPU by its number, else by its place among those named; None if there are too
        many.
        """
        if (place := self._head.number) is not None:
            said = cells[place]
            is_number = said.isdecimal() and len(said) < 4
            return int(said) if is_number and int(said) < MOST_GPUS else None
        if (place := self._head.identity) is None or (
            cells[place] not in self._gpus and len(self._gpus) == MOST_GPUS
        ):
            return None
        return self._gpus.setdefault(cells[place], len(self._gpus))

    def _model(self, cells: Sequence[str]) -> tuple[str, int]:
        """Return the name of the GPU's model and the bytes of its memory; empty and 0: unsaid."""
        model, memory = self._head.model, self._head.memory
        size = math.nan if memory is None else to_number(cells[memory])
        name = "" if model is None else cells[model][:_MODEL_CHARS]
        is_name = name[:1].isalpha() and not name.startswith("ERR!")
        return name if is_name else "", round(size) * _MIB if 0 < size < 10**8 else 0

    def _is_read_day_first(self) -> bool:
        said = (self._head.said_time(cells) for cells in islice(self._lines(Tally()), _LOOKED_AT))
        first = list(said)
        found = is_day_first(first)
        if found is None and any("/" in time[:3] for time in first[:1]):
            self._tally.note("Dates such as 10/11/2026 are read as month/day/year.")
        return bool(found)

    def _order(self) -> tuple[int, float]:
        """Return how many rows a tick has, and how far apart they are at most."""
        read = (self._time_ms(cells) for cells in islice(self._lines(Tally()), _LOOKED_AT))
        times = np.array([time for time in read if time is not None], dtype="float64")
        in_tick, apart_ms = _rows_in_tick(times)
        self._tally.note(
            "No column names the GPUs: each line is GPU 0. Add `index` to --query-gpu."
            if in_tick == 1
            else f"No column names the GPUs: the {in_tick} lines of each time count as GPUs in "
            "their order. Add `index` to --query-gpu."
        )
        return in_tick, apart_ms

    def _check(self, stated: StatedFacts) -> None:
        head = self._first_head = self._head
        self._is_unnamed = head.number is None and head.identity is None
        if not head.times:
            if self._is_unnamed:
                raise NotImportableError("no times: add `timestamp` and `index` to --query-gpu")
            add = "add `timestamp` to --query-gpu" if head.is_query else "record with `dmon -o DT`"
            self.count_ticks(stated, add)
        if not head.series:
            known = ", ".join(QUERIED if head.is_query else MONITORED)
            raise NotImportableError(f"none of the columns {known}")
        used = {head.columns[place] for place, _, _ in head.series}
        for name in head.columns:
            if name not in used | IDENTITY:
                self._tally.skip("columns", "no series of ours", 1, name)


def _rows_in_tick(times_ms: Floats) -> tuple[int, float]:
    """Return how many rows come together, and how far apart they are at most.

    A single GPU's rows are about equally far apart. Those of several have a pause after each tick.
    """
    gaps = np.diff(times_ms)
    if not len(gaps):
        return 1, 0.0
    apart_ms = float(np.quantile(gaps, _PAUSE_SHARE, method="higher")) / 2
    begins = np.flatnonzero(np.concatenate(([True], gaps > apart_ms)))
    sizes = np.diff(np.append(begins, len(times_ms)))
    most = int(np.bincount(sizes).argmax())
    alike = int((sizes == most).sum())
    # The last tick may be cut off.
    is_regular = alike > 1 and alike >= _ALIKE_SHARE * (len(sizes) - 1)
    return (most, apart_ms) if is_regular and 1 < most <= MOST_GPUS else (1, 0.0)


def _is_like(found: SmiHead, before: SmiHead) -> bool:
    """Return whether a later head names GPUs and times by the same columns as the first one."""
    known, earlier = (
        [bool(head.times), head.number is None, head.identity is None] for head in (found, before)
    )
    return known == earlier


def _candidates(source: Source) -> Iterator[str]:
    named = (path for path in source.sizes if path.endswith((".csv", ".txt", ".log")))
    return islice(named, _MOST_FILES)


def _head_of(source: Source, path: str) -> SmiHead | None:
    lines = (line for line in source.text_beginning(path).splitlines() if line.strip())
    return next(filter(None, map(head_from, islice(lines, _HEAD_LINES))), None)
