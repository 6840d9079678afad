"""The tables of Nsight Systems' SQLite export, as columns of numbers.

https://docs.nvidia.com/nsight-systems/UserGuide/index.html, "SQLite Schema Reference". Tables and
columns differ between versions, and exist only if something of their kind was recorded. Times are
nanoseconds since the session began.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from advisor.importers.activity import MOST_GPUS
from advisor.importers.nsys.database import Database
from advisor.importers.recording import NotImportableError, Whole
from advisor.importers.tally import Tally
from advisor.importers.trace_events import MOST_US

KERNEL, GRAPH = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
MEMCPY, MEMSET = "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"
CALLS, STRINGS, DEVICES = "CUPTI_ACTIVITY_KIND_RUNTIME", "StringIds", "TARGET_INFO_CUDA_DEVICE"
_MOST_ROWS = 3_000_000
"""The most rows of a table: 250 MB while it is read."""
_MOST_NS = MOST_US * 1000
_PID_SHIFT, _PID_BITS = 24, 0xFFFFFF
"""The place of the process id in a global thread or process id."""


@dataclass(frozen=True)
class Operations:
    """Rows of one table: one place for each operation."""

    start_ns: Whole
    end_ns: Whole
    gpu: Whole
    """-1: of no GPU."""
    name: Whole
    """A number that stands for the name: of `StringIds`, or a kind of copy."""

    @property
    def length_ns(self) -> Whole:
        return self.end_ns - self.start_ns

    def select_rows(self, rows: Whole | np.ndarray) -> Operations:
        return Operations(self.start_ns[rows], self.end_ns[rows], self.gpu[rows], self.name[rows])


def operations(
    database: Database, table: str, name: str, tally: Tally, where: str, on_gpu: bool = True
) -> Operations:
    """Return a table's operations; none if it is missing.

    Args:
        name: the column of the names; empty: all have the name 0.
        where: the file.
    """
    wanted = ["start", "end", *(["deviceId"] if on_gpu else []), *([name] if name else [])]
    has_pid = on_gpu and database.has(table, "globalPid")
    if not database.has(table, *wanted):
        return Operations(*(np.zeros(0, dtype="int64") for _ in range(4)))
    rows = _read(database, table, wanted, ["globalPid"] if has_pid else [], tally, where)
    start, end = rows[:, 0], rows[:, 1]
    gpu = rows[:, 2] if on_gpu else np.full(len(rows), -1)
    if has_pid:
        gpu = _physical(database, gpu, rows[:, -1])
    named = rows[:, wanted.index(name)] if name else np.zeros(len(rows), dtype="int64")
    possible = (start >= -_MOST_NS) & (end <= _MOST_NS) & (end >= start)
    possible &= (gpu < MOST_GPUS) & (gpu >= (0 if on_gpu else -1))
    tally.skip("records", "an impossible duration, time or GPU", int((~possible).sum()), where)
    return Operations(start, end, gpu, named).select_rows(possible)


def pid_of(global_id: int) -> int:
    """Return the process id within a global thread or process id."""
    return (global_id >> _PID_SHIFT) & _PID_BITS


def strings(database: Database, wanted: Whole, tally: Tally, where: str) -> dict[int, str]:
    """Return number -> text, of these numbers."""
    if not database.has(STRINGS, "id", "value"):
        return {}
    needed, found = set(wanted.tolist()), dict[int, str]()
    try:
        for batch in database.texts(STRINGS, ["id"], "value"):
            found |= {number: str(text) for number, text in batch if number in needed}
    except NotImportableError as error:
        tally.skip("tables", str(error), 1, f"{where}, {STRINGS}")
    return found


def one_value(database: Database, table: str, column: str) -> int | None:
    """Return the integer of a table's first row that has one."""
    if not database.has(table, column):
        return None
    try:
        batch = next(database.read_integer_rows(table, [column]), None)
    except NotImportableError:
        return None
    return int(batch[0][0]) if batch else None


def rows_of(database: Database, table: str, columns: Sequence[str], text: str) -> list[Any]:
    """Return the first rows of a small table, with a text last; empty if it is missing or
    damaged.
    """
    if not database.has(table, *columns, text):
        return []
    try:
        return next(database.texts(table, columns, text), [])
    except NotImportableError:
        return []


def _read(
    database: Database,
    table: str,
    columns: Sequence[str],
    optional: Sequence[str],
    tally: Tally,
    where: str,
) -> Whole:
    """Return rows of whole numbers; (n, columns)."""
    place, batches, count = f"{where}, {table}", [], 0
    try:
        for batch in database.read_integer_rows(table, columns, optional=optional):
            batches.append(np.array(batch, dtype="int64"))
            count += len(batch)
            if count >= _MOST_ROWS:
                break
        if left := database.count(table, columns[0]) - count:
            why = "more than fit" if count >= _MOST_ROWS else "a value that is no whole number"
            tally.skip("records", why, left, place)
    except NotImportableError as error:
        tally.skip("tables", str(error), 1, place)
    empty = np.zeros((0, len(columns) + len(optional)), dtype="int64")
    return np.concatenate([empty, *batches])


def _physical(database: Database, device: Whole, global_pid: Whole) -> Whole:
    """Return the GPU's number on the machine: a process may see some of the GPUs, numbered from
    0.
    """
    if not database.has(DEVICES, "gpuId", "cudaId", "pid"):
        return device
    try:
        known = next(database.read_integer_rows(DEVICES, ["pid", "cudaId", "gpuId"]), [])
    except NotImportableError:
        return device
    numbers = {(pid, ordinal): gpu for pid, ordinal, gpu in known}
    seen, place = np.unique(np.stack((global_pid, device)), axis=1, return_inverse=True)
    pairs = ((pid_of(process), ordinal) for process, ordinal in seen.T.tolist())
    gpus = [numbers.get(pair, pair[1]) for pair in pairs]
    return np.array(gpus, dtype="int64")[place.reshape(-1)]


@dataclass(frozen=True)
class Summary:
    """All operations of one name, in nanoseconds; the columns of `nsys stats`."""

    name: int
    count: int
    total_ns: int
    mean_ns: float
    median_ns: float
    min_ns: int
    max_ns: int
    deviation_ns: float | None
    """The standard deviation of the sample; None if there is one operation only."""


def summaries(name: Whole, length_ns: Whole) -> list[Summary]:
    """Return a summary for each name, those first that took the most time."""
    if not len(name):
        return []
    order = np.lexsort((length_ns, name))
    name, length = name[order], length_ns[order]
    first = np.flatnonzero(np.concatenate(([True], name[1:] != name[:-1])))
    count = np.diff(np.concatenate((first, [len(name)])))
    total = np.add.reduceat(length.astype("float64"), first)
    mean = total / count
    squares = np.add.reduceat((length - np.repeat(mean, count)) ** 2, first)
    median = (length[first + (count - 1) // 2] + length[first + count // 2]) / 2
    found = [
        Summary(
            int(name[at]), int(n), int(total[i]), float(mean[i]), float(median[i]),
            int(length[at]), int(length[at + n - 1]),
            float(np.sqrt(squares[i] / (n - 1))) if n > 1 else None,
        )
        for i, (at, n) in enumerate(zip(first.tolist(), count.tolist(), strict=True))
    ]  # fmt: skip
    return sorted(found, key=lambda each: -each.total_ns)
