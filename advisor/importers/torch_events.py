"""The operations of one Kineto trace, read into columns: a long one has millions."""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from advisor.importers.activity import (
    CALLS,
    COMMUNICATION,
    COPIES,
    CPU,
    KERNELS,
    MOST_GPUS,
    is_collective,
)
from advisor.importers.recording import Floats, Whole
from advisor.importers.source import Source
from advisor.importers.tally import Tally
from advisor.importers.trace_events import MOST_OPERATORS, MOST_US, OTHERS
from advisor.importers.trace_text import NO_EVENT, EventReader

CATEGORIES = {
    "cpu_op": CPU,
    "user_annotation": CPU,
    "kernel": KERNELS,
    "gpu_memcpy": COPIES,
    "gpu_memset": COPIES,
    "cuda_runtime": CALLS,
    "cuda_driver": CALLS,
    # Before PyTorch 1.12.
    "Operator": CPU,
    "Kernel": KERNELS,
    "Memcpy": COPIES,
    "Memset": COPIES,
    "Runtime": CALLS,
}
STEP, OPTIMIZER, LOADER = "ProfilerStep#", "Optimizer.step#", "enumerate(DataLoader)#"
_STEP = re.compile(r"ProfilerStep#\d+")
IMPOSSIBLE = "an impossible duration or time"
_LATEST_US = 4e15
_NAME_CHARS = 2_000
_NO_GPU = -1
_LOOP = 100_000
"""Operations whose callers are found at once: as Python's objects they take some MB."""
_BASE = re.compile(rb'"baseTimeNanoseconds"\s*:\s*(\d{1,20})\b')


class _Arguments(msgspec.Struct, gc=False):
    device: Any = None


class _Event(msgspec.Struct, gc=False):
    ph: str = ""
    cat: str = ""
    name: str | None = None
    ts: float = math.nan
    dur: float = math.nan
    pid: int | float | str | None = None
    tid: int | float | str | None = None
    args: _Arguments | None = None


_DECODE = msgspec.json.Decoder(list[_Event]).decode


@dataclass(frozen=True)
class TorchEvents:
    """The operations of a file, in the order of threads and of time, callers before callees.

    Attributes:
        around: the text before and after its events.
        names: category and name of each kind of operation.
        name: of each operation, its place in `names`.
        start_us, end_us: microseconds since 1970, or of the file's own clock.
        gpu: -1: none.
    """

    around: bytes
    names: list[tuple[str, str]]
    name: Whole
    thread: Whole
    start_us: Floats
    end_us: Floats
    gpu: Whole

    def find_spans(self, beginning: str) -> tuple[Floats, Floats]:
        """Return the starts and ends of the operations on no GPU that are named so."""
        kinds = [n for n, (_, name) in enumerate(self.names) if name.startswith(beginning)]
        chosen = np.isin(self.name, kinds) & (self.gpu == _NO_GPU)
        return self.start_us[chosen], self.end_us[chosen]

    def by_gpu(self) -> Iterator[tuple[int, Floats, Floats]]:
        for gpu in np.unique(self.gpu[self.gpu != _NO_GPU]).tolist():
            chosen = self.gpu == gpu
            yield gpu, self.start_us[chosen], self.end_us[chosen]


class _Columns:
    """Operations as they are read."""

    def __init__(self) -> None:
        self.names: dict[tuple[str, str], int] = {}
        self._kinds: dict[tuple[str, str], int] = {}
        self._threads: dict[tuple[Any, Any], int] = {}
        self.name, self.thread, self.gpu = array("i"), array("i"), array("b")
        self.start_us, self.length_us = array("d"), array("d")

    def add(self, event: _Event, category: str) -> bool:
        """Take an operation, unless it has no name, no thread or an impossible duration."""
        if not 0 <= event.dur <= MOST_US or event.name is None:
            return False
        if event.pid is None or event.tid is None or not math.isfinite(event.ts):
            return False
        kind = self._kinds.get((event.cat, event.name))
        thread = event.pid, event.tid
        self.name.append(self._kind(event.cat, event.name) if kind is None else kind)
        self.thread.append(self._threads.setdefault(thread, len(self._threads)))
        self.start_us.append(event.ts)
        self.length_us.append(event.dur)
        self.gpu.append(_gpu(event) if category in (KERNELS, COPIES) else _NO_GPU)
        return True

    def _kind(self, said: str, name: str) -> int:
        """Return the number of category and name; those of all marked steps are one."""
        category, short = CATEGORIES[said], name[:_NAME_CHARS]
        if _STEP.fullmatch(name):
            short = STEP
        elif category == KERNELS and is_collective(name):
            category = COMMUNICATION
        if len(self.names) >= MOST_OPERATORS and (category, short) not in self.names:
            short = OTHERS
        number = self.names.setdefault((category, short), len(self.names))
        if len(self._kinds) < 2 * MOST_OPERATORS and len(name) <= _NAME_CHARS:
            self._kinds[said, name] = number
        return number


def read_events(source: Source, path: str, tally: Tally) -> TorchEvents:
    """Read a file's operations. What is none is counted, and what is broken by its reason.

    Raises:
        OSError
    """
    reader = EventReader(source.pieces(path), path, tally, _DECODE, _event_from)
    columns = _Columns()
    for events in reader.batches():
        moments = broken = impossible = 0
        for event in events:
            category = CATEGORIES.get(event.cat)
            if category is not None and event.ph == "X":
                impossible += not columns.add(event, category)
            elif event.ph:
                moments += 1
            else:
                broken += 1
        tally.take("moments", moments)
        tally.skip("records", NO_EVENT, broken, path)
        tally.skip("records", IMPOSSIBLE, impossible, path)
    return _in_order(columns, reader.head + reader.tail, path, tally)


def _in_order(columns: _Columns, around: bytes, path: str, tally: Tally) -> TorchEvents:
    base = _BASE.search(around)
    start = np.array(columns.start_us) + (int(base[1]) / 1000 if base else 0)
    end = start + np.array(columns.length_us)
    possible = (start >= 0) & (start < _LATEST_US)
    tally.skip("records", IMPOSSIBLE, int((~possible).sum()), path)
    tally.take("operations", int(possible.sum()))
    name, thread = np.array(columns.name, "int64"), np.array(columns.thread, "int64")
    gpu = np.array(columns.gpu, "int64")
    order = np.lexsort((-end, start, thread))
    order = order[possible[order]]
    return TorchEvents(
        around,
        list(columns.names),
        name[order],
        thread[order],
        start[order],
        end[order],
        gpu[order],
    )


def callers(events: TorchEvents) -> Whole:
    """Return the place of the operation that called each; -1: none did."""
    found = np.full(len(events.start_us), -1)
    open_ones: list[tuple[int, float]] = []
    last = -1
    for first in range(0, len(found), _LOOP):
        part, outer = slice(first, first + _LOOP), []
        rows = (events.thread[part], events.start_us[part], events.end_us[part])
        for place, (thread, start, end) in enumerate(
            zip(*(each.tolist() for each in rows), strict=True), first
        ):
            if thread != last:
                open_ones, last = [], thread
            while open_ones and open_ones[-1][1] <= start:
                open_ones.pop()
            outer.append(open_ones[-1][0] if open_ones else -1)
            open_ones.append((place, end))
        found[part] = outer
    return found


def _gpu(event: _Event) -> int:
    gpu = event.args.device if event.args else None
    return gpu if isinstance(gpu, int) and 0 <= gpu < MOST_GPUS else _NO_GPU


def _event_from(event: dict[str, Any]) -> _Event:
    """Return an event of any JSON; what isn't of its type is missing."""
    args = event.get("args")
    device = args.get("device") if isinstance(args, dict) else None
    kind, category = event.get("ph"), event.get("cat")
    return _Event(
        ph=kind if isinstance(kind, str) else "",
        cat=category if isinstance(category, str) else "",
        name=str(event["name"]) if "name" in event else None,
        ts=_float(event.get("ts")),
        dur=_float(event.get("dur")),
        pid=_thread(event.get("pid")),
        tid=_thread(event.get("tid")),
        args=_Arguments(device),
    )


def _float(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _thread(value: Any) -> int | float | str | None:
    return value if isinstance(value, int | float | str) else None
