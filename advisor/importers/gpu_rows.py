"""Recordings that have a row for each GPU and tick, whatever printed them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from advisor.importers.recording import (
    Floats,
    NotImportableError,
    Part,
    RecordedMachine,
    RecordedNode,
    Samples,
    SamplesOnly,
    cadence,
)
from advisor.importers.source import Source
from advisor.importers.stated_facts import StatedFacts
from advisor.importers.tally import Tally
from advisor.store.index import to_ms

MOST_GPUS = 64
_TICKS_A_PART = 3600
_LOOKED_AT = 5_000
"""Rows by which it is told which GPUs there are."""
_PERCENTAGES = {"busy_pct", "memory_controller_busy_pct", "memory_used_pct"}
"""Series of which no value can be below 0 or above 100."""


@dataclass(frozen=True)
class GpuRow:
    """One line. `values` has what is no number as NaN; `model` is the GPU's, and its memory."""

    time_ms: int
    gpu: int
    values: dict[str, float]
    model: tuple[str, int] = ("", 0)


class GpuRows(SamplesOnly, ABC):
    """The GPUs of one machine. See `recording.Recording`."""

    _source: Source
    _tally: Tally
    _path: str

    def __init__(self, tally: Tally) -> None:
        super().__init__(tally)
        self._models: dict[int, tuple[str, int]] = {}
        self._numbers: dict[int, int] = {}
        self._began_ms = self._interval_ms = 0

    @abstractmethod
    def rows(self, tally: Tally) -> Iterator[GpuRow]:
        """Yield the rows in their order, and count the lines that are none."""

    def count_ticks(self, stated: StatedFacts, instead: str) -> None:
        """Have ticks count from the stated begin, as the lines have no times.

        Raises:
            NotImportableError: nobody says how far apart they are; `instead` is another way.
        """
        if not stated.interval_seconds:
            raise NotImportableError(
                "the lines have no times: say how far apart they are with --interval-seconds, and "
                f"when the first was printed with --started-at; or {instead}"
            )
        self._interval_ms = max(round(stated.interval_seconds * 1000), 1)
        self._began_ms = to_ms(stated.started_at or stated.imported_at)
        self._tally.note(
            "The lines have no times: they count as printed at the interval that was stated."
        )
        if stated.started_at is None:
            self._tally.note(
                "The files have no time of day. The run counts as begun when it was imported."
            )

    def tick_clock(self) -> Callable[[int], int]:
        """Return what gives the next line's time by its GPU: a tick ends where one is named
        again.
        """
        seen: set[int] = set()
        tick_ms = self._began_ms

        def time_ms(gpu: int) -> int:
            nonlocal tick_ms
            if gpu in seen:
                seen.clear()
                tick_ms += self._interval_ms
            seen.add(gpu)
            return tick_ms

        return time_ms

    def number_gpus(self) -> None:
        """Number the GPUs of the file from 0: the run has those that were recorded."""
        named = sorted({row.gpu for row in islice(self.rows(Tally()), _LOOKED_AT)})
        self._numbers = {gpu: number for number, gpu in enumerate(named)}
        moved = [f"GPU {gpu} is shown as GPU {n}" for gpu, n in self._numbers.items() if gpu != n]
        if moved:
            self._tally.note(f"Not all GPUs were recorded: {', '.join(moved)}.")

    def parts(self, node: RecordedNode) -> Iterator[Part]:
        """Yield the ticks, an hour at a time of those of a second."""
        self._models = {}
        ticks = self._ticks()
        cadence_ms = 0
        while batch := list(islice(ticks, _TICKS_A_PART)):
            times = np.array([tick[0].time_ms for tick in batch], dtype="int64")
            if len(times) > 1 and not cadence_ms:
                cadence_ms = cadence(times)
            yield Samples(cadence_ms or 1000, times, self._columns(batch))
        # A GPU that a row names is there, whether or not its use is known.
        node.gpus = len(self._models)
        node.machine = RecordedMachine(
            gpus=tuple(self._models[gpu] for gpu in sorted(self._models))
        )

    def _columns(self, batch: Sequence[Sequence[GpuRow]]) -> dict[str, Floats]:
        columns: dict[str, Floats] = {}
        for number, tick in enumerate(batch):
            for row in tick:
                gpu = self._numbers.setdefault(row.gpu, len(self._numbers))
                if not self._models.get(gpu, ("", 0))[0]:
                    self._models[gpu] = row.model
                for series, value in row.values.items():
                    name = f"gpu{gpu}.{series}"
                    if name not in columns:
                        columns[name] = np.full(len(batch), np.nan)
                    columns[name][number] = self._possible(series, value)
        taken = sum(int(np.isfinite(values).sum()) for values in columns.values())
        self._tally.take("samples", taken)
        return columns

    def _possible(self, series: str, value: float) -> float:
        """Return the value; NaN for a percentage that can't be one, such as a counter's."""
        if series not in _PERCENTAGES or not (value < 0 or value > 100):
            return value
        self._tally.skip("values", f"{series} outside 0 to 100", 1, self._path)
        return np.nan

    def _ticks(self) -> Iterator[list[GpuRow]]:
        """Yield the rows of each tick. A tick ends where a GPU is named again."""
        tick: dict[int, GpuRow] = {}
        last_ms: dict[int, int] = {}
        for row in self.rows(self._tally):
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
