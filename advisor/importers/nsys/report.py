"""One file of Nsight Systems: what ran on its GPUs and CPUs, and when."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from advisor.importers.activity import (
    CALLS,
    CELL_MS,
    COMMUNICATION,
    COPIES,
    KERNELS,
    MOST_GPUS,
    is_collective,
    union,
)
from advisor.importers.nsys import metrics, ranges, tables
from advisor.importers.nsys.database import Database
from advisor.importers.nsys.tables import Operations, Summary
from advisor.importers.operator_times import OperatorTimes
from advisor.importers.recording import Floats, Whole
from advisor.importers.stated_facts import to_printable_name
from advisor.importers.tally import Tally
from advisor.importers.times import is_possible
from advisor.importers.trace_events import MOST_OPERATORS, MOST_US, OTHERS, Operators

_COPY_KINDS = {
    1: "Host-to-Device",
    2: "Device-to-Host",
    3: "Host-to-Array",
    4: "Array-to-Host",
    5: "Array-to-Array",
    6: "Array-to-Device",
    7: "Device-to-Array",
    8: "Device-to-Device",
    9: "Host-to-Host",
    10: "Peer-to-Peer",
}
"""The kinds of copies by CUPTI's `CUpti_ActivityMemcpyKind`."""
_VERSION = re.compile(r"_v\d+\Z")
_LISTED = 200
_UNKNOWN = "(unknown)"
_MOST_METRIC_CELLS = 100_000
"""Three hours."""


@dataclass
class Report:
    """The content of a file. Times are Unix microseconds.

    Attributes:
        busy: GPU -> `activity.union` of what ran on it.
        steps: of each process with steps, when they began and ended.
        gpus: model and bytes of memory.
        kernels: rows of the kernel table, those first that took the most time.
        metrics: series of GPU metrics, in cells from `began_us` on.
    """

    host: str
    began_us: float
    ended_us: float
    busy: dict[int, tuple[Floats, Floats]]
    steps: list[list[tuple[float, float]]]
    gpus: tuple[tuple[str, int], ...]
    kernels: list[dict[str, Any]]
    metrics: dict[str, Floats] = field(default_factory=dict)


def read(
    database: Database,
    where: str,
    imported_us: float,
    sums: Operators,
    times: OperatorTimes,
    tally: Tally,
) -> Report | None:
    """Read a file; None: nothing in it was recorded.

    Args:
        imported_us: what it counts from if it doesn't say when its session began.
        sums, times: to add its operations to.
    """
    host = _host(database)
    reader = _Reader(database, where, host, sums, times, tally)
    found = ranges.ranges_of(database, tally, where)
    tally.take("ranges", len(found))
    edges = [*reader.edges, *((each.start_us, each.end_us) for each in found)]
    if not edges:
        return None
    first, last = min(start for start, _ in edges), max(end for _, end in edges)
    base = _base_us(database, tally, imported_us - first)
    ranges.add_up(found, sums, times, host, base)
    for numbers, each in reader.numbered:
        times.add_all(numbers, each.start_ns / 1000 + base, each.end_ns / 1000 + base)
    last = max(last, _analysed_until_us(database, last))
    count = int((last - first) / 1000 / CELL_MS) + 1
    measured = {}
    if count <= _MOST_METRIC_CELLS:
        began_ns = int((first + base) // 1000 * 1_000_000 - base * 1000)
        measured = metrics.columns(database, began_ns, count, tally, where)
    return Report(
        host=host,
        began_us=first + base,
        ended_us=last + base,
        busy={
            gpu: (start + base, end + base) for gpu, (start, end) in reader.busy_intervals().items()
        },
        steps=[
            [(each.start_us + base, each.end_us + base) for each in steps]
            for _, steps in ranges.steps_of(found)
        ],
        gpus=_gpus(database),
        kernels=reader.kernels,
        metrics=measured,
    )


class _Reader:
    """Reads the tables of operations one after the other, and adds them up."""

    def __init__(
        self,
        database: Database,
        where: str,
        host: str,
        sums: Operators,
        times: OperatorTimes,
        tally: Tally,
    ) -> None:
        self._database, self._where, self._sums, self._tally = database, where, sums, tally
        self._host, self._times = host, times
        self._on_gpu: list[Operations] = []
        self.numbered: list[tuple[Whole, Operations]] = []
        """The numbers of each table's operators, as `OperatorTimes.number`."""
        self.edges: list[tuple[float, float]] = []
        """The time when each table's first operation began and its last ended: µs since the session
        began."""
        self.kernels: list[dict[str, Any]] = []
        self._add_kernels()
        self._add_copies()
        self._add_calls()

    def busy_intervals(self) -> dict[int, tuple[Floats, Floats]]:
        found: dict[int, list[Operations]] = defaultdict(list)
        for each in self._on_gpu:
            for gpu in np.unique(each.gpu).tolist():
                found[gpu].append(each.select_rows(each.gpu == gpu))
        return {gpu: _union(own) for gpu, own in found.items()}

    def _add_kernels(self) -> None:
        has_long = self._database.has(tables.KERNEL, "demangledName")
        column = "demangledName" if has_long else "shortName"
        kernels = self._operations(tables.KERNEL, column)
        found = tables.summaries(kernels.name, kernels.length_ns)
        names = self._names(found)
        total = sum(each.total_ns for each in found)
        for each in found[:_LISTED]:
            self.kernels.append(_row(names.get(each.name, _UNKNOWN), each, total))
        called = {}
        for each in found:
            name = names.get(each.name, OTHERS)
            called[each.name] = COMMUNICATION if is_collective(name) else KERNELS, name
        self._add(kernels, found, called)
        graphs = self._operations(tables.GRAPH, "")
        self._add_as_one(graphs, KERNELS, "(CUDA graph)")

    def _add_copies(self) -> None:
        copies = self._operations(tables.MEMCPY, "copyKind")
        found = tables.summaries(copies.name, copies.length_ns)
        kinds = {each.name: _COPY_KINDS.get(each.name, f"kind {each.name}") for each in found}
        called = {number: (COPIES, f"[CUDA memcpy {kind}]") for number, kind in kinds.items()}
        self._add(copies, found, called)
        cleared = self._operations(tables.MEMSET, "")
        self._add_as_one(cleared, COPIES, "[CUDA memset]")

    def _add_calls(self) -> None:
        calls = self._operations(tables.CALLS, "nameId", on_gpu=False)
        found = tables.summaries(calls.name, calls.length_ns)
        names = self._names(found)
        called = {
            each.name: (CALLS, _VERSION.sub("", names.get(each.name, OTHERS))) for each in found
        }
        self._add(calls, found, called)

    def _operations(self, table: str, name: str, on_gpu: bool = True) -> Operations:
        found = tables.operations(self._database, table, name, self._tally, self._where, on_gpu)
        if len(found.start_ns):
            self._tally.take("operations", len(found.start_ns))
            self.edges.append((found.start_ns.min() / 1000, found.end_ns.max() / 1000))
            if on_gpu:
                self._on_gpu.append(found)
        return found

    def _names(self, found: Iterable[Summary]) -> dict[int, str]:
        wanted: Whole = np.array([each.name for each in found][:MOST_OPERATORS], dtype="int64")
        return tables.strings(self._database, wanted, self._tally, self._where)

    def _add(
        self,
        operations: Operations,
        found: Iterable[Summary],
        called: Mapping[int, tuple[str, str]],
    ) -> None:
        """Add the operations of a table. `called`: number in `Operations.name` -> category and
        name.
        """
        for each in found:
            total_us, longest_us = each.total_ns / 1000, each.max_ns / 1000
            self._sums.add_all(*called[each.name], each.count, total_us, longest_us)
        if called:
            known = sorted(called)
            numbers = np.array([self._times.number(self._host, *called[each]) for each in known])
            self.numbered.append((numbers[np.searchsorted(known, operations.name)], operations))

    def _add_as_one(self, operations: Operations, category: str, name: str) -> None:
        found = tables.summaries(operations.name, operations.length_ns)
        self._add(operations, found, {each.name: (category, name) for each in found})


def _row(name: str, each: Summary, total_ns: int) -> dict[str, Any]:
    """Return the columns of `nsys stats --report cuda_gpu_kern_sum`, rounded as there."""
    deviation = None if each.deviation_ns is None else round(each.deviation_ns, 1)
    return {
        "name": name,
        "time_pct": round(100 * each.total_ns / total_ns, 1) if total_ns else 0.0,
        "total_ns": each.total_ns,
        "instances": each.count,
        "avg_ns": round(each.mean_ns, 1),
        "med_ns": round(each.median_ns, 1),
        "min_ns": each.min_ns,
        "max_ns": each.max_ns,
        "stddev_ns": deviation,
    }


def _union(own: Iterable[Operations]) -> tuple[Floats, Floats]:
    parts = [(each.start_ns / 1000, each.end_ns / 1000) for each in own]
    starts, ends = zip(*parts, strict=True)
    return union(np.concatenate(starts), np.concatenate(ends))


def _base_us(database: Database, tally: Tally, otherwise_us: float) -> float:
    """Return what to add to times since the session began, for Unix microseconds."""
    epoch_ns = tables.one_value(database, "TARGET_INFO_SESSION_START_TIME", "utcEpochNs")
    if epoch_ns is not None and is_possible(epoch_ns / 1e9):
        return epoch_ns / 1000
    tally.note("The files have no time of day. The run counts as begun when it was imported.")
    return otherwise_us


def _analysed_until_us(database: Database, last_us: float) -> float:
    """Return when the profiler stopped; 0 if unknown or impossible."""
    stopped_ns = tables.one_value(database, "ANALYSIS_DETAILS", "stopTime") or 0
    return stopped_ns / 1000 if stopped_ns / 1000 - last_us < MOST_US else 0.0


def _host(database: Database) -> str:
    rows = tables.rows_of(database, "TARGET_INFO_SYSTEM_ENV", ["name"], "value")
    named: Mapping[Any, Any] = {name: value for name, value in rows if isinstance(name, str)}
    return to_printable_name(str(named.get("Hostname", ""))) or "machine"


def _gpus(database: Database) -> tuple[tuple[str, int], ...]:
    rows = tables.rows_of(database, "TARGET_INFO_GPU", ["id", "totalMemory"], "name")
    known = {
        number: (
            to_printable_name(str(name)),
            size if isinstance(size, int) and 0 < size < 2**50 else 0,
        )
        for number, size, name in rows
        if isinstance(number, int) and 0 <= number < MOST_GPUS
    }
    numbered = range(max(known, default=-1) + 1)
    return tuple(known.get(number, ("", 0)) for number in numbered)
