"""System metrics: JSON lines, one record a series and tick, a file a node and minute."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from advisor.importers.json_text import parse_json
from advisor.importers.recording import Floats, Samples, Whole
from advisor.importers.sagemaker.layout import SystemFile
from advisor.importers.source import PIECE_BYTES, Source
from advisor.importers.tally import Tally

SAME_TICK_US = 20_000
"""Collectors of one tick differ by less (SageMaker's rules group within 20 ms)."""
MOST_CELLS = 4_000_000
"""Ticks times series of one block: 32 MB."""
EARLIEST_SECONDS = 1_511_913_600
"""SageMaker's first day, 2017-11-29."""
LONGEST_SECONDS = 28 * 86_400
"""A training job ends after 28 days."""
_INTERVALS_MS = (100, 200, 500, 1_000, 5_000, 60_000)
_SCHEMA = pa.schema(
    {
        "Type": pa.string(),
        "Name": pa.string(),
        "Dimension": pa.string(),
        "Value": pa.float64(),
        "Timestamp": pa.float64(),
    }
)
_TEXTS, _SEPARATOR = ("Type", "Name", "Dimension"), "\x1f"
_CORE = re.compile(r"(cpu|gpu)(\d{1,3})")
_OF_A_CORE = {
    ("cpu", "CPUUtilization"): "busy_pct",
    ("cpu", "I/OWaitPercentage"): "iowait_pct",
    ("gpu", "GPUUtilization"): "busy_pct",
    # It follows the use of the GPU within a sample, which no allocated memory does.
    ("gpu", "GPUMemoryUtilization"): "memory_controller_busy_pct",
}
_OF_A_NODE = {
    ("memory", "MemoryUsedPercent", ""): "host.memory_used_pct",
    ("i/o", "IOPS", ""): "disk.ops_total",
    ("i/o", "ReadThroughputInBytesPerSecond", ""): "disk.read_bytes_total",
    ("i/o", "WriteThroughputInBytesPerSecond", ""): "disk.written_bytes_total",
    ("network", "ReceiveBytesPerSecond", "Algorithm"): "net.received_bytes_total",
    ("network", "TransmitBytesPerSecond", "Algorithm"): "net.sent_bytes_total",
    ("network", "ReceiveBytesPerSecond", "Platform"): "net_platform.received_bytes_total",
    ("network", "TransmitBytesPerSecond", "Platform"): "net_platform.sent_bytes_total",
}
_MEANS = {
    "host.cpu_busy_pct": re.compile(r"cpu\d+\.busy_pct"),
    "host.cpu_iowait_pct": re.compile(r"cpu\d+\.iowait_pct"),
}


def series_of(kind: str, name: str, dimension: str) -> str | None:
    """Return our name of a record's series; None for no known one. Rates become counters."""
    core = _CORE.fullmatch(name)
    if core and core[1] == kind and (unit := _OF_A_CORE.get((kind, dimension))):
        return f"{kind}{int(core[2])}.{unit}"
    return _OF_A_NODE.get((kind, name, dimension))


class SystemMetrics:
    """One node's files as ticks. Memory: some pieces of a file."""

    def __init__(self, source: Source, files: list[SystemFile], tally: Tally) -> None:
        self._source, self._files, self._tally = source, files, tally
        self._totals: dict[str, float] = {}
        self._last_ms = 0
        self._cadence_ms = 500
        self.series: set[str] = set()

    def samples(self) -> Iterator[Samples]:
        late = _Records.none()
        for where, minute, piece in self._pieces():
            records = self._records(piece, minute, where)
            records, late = _joined(late, records).split()
            yield from self._blocks(records)
        yield from self._blocks(late)

    def _pieces(self) -> Iterator[tuple[str, int, bytes]]:
        """Yield lines of one or more files, with the first one's name and minute."""
        held: list[bytes] = []
        size, first = 0, None
        for file in self._files:
            first = first or file
            try:
                for piece in self._source.lines(file.path, self._tally):
                    held += [piece] if piece.endswith(b"\n") else [piece, b"\n"]
                    size += len(piece)
                    if size >= PIECE_BYTES:
                        yield first.path, first.minute_seconds, b"".join(held)
                        held, size, first = [], 0, file
            except OSError as error:
                self._tally.skip("files", f"can't be read: {type(error).__name__}", 1, file.path)
        if held and first is not None:
            yield first.path, first.minute_seconds, b"".join(held)

    def _records(self, piece: bytes, minute: int, where: str) -> _Records:
        try:
            # Arrow's reader ends the process if the first record is a `null`.
            table = self._by_line(piece, where) if b"null" in piece else _table(piece)
        except (pa.ArrowException, ValueError):
            table = self._by_line(piece, where)
        return self._checked(table, minute, where)

    def _by_line(self, piece: bytes, where: str) -> pa.Table:
        rows = []
        for number, line in enumerate(piece.splitlines(), start=1):
            row = _row(line)
            if row is not None:
                rows.append(row)
            elif line.strip():
                place = f"{where}, line {number}"
                self._tally.skip("records", "not a whole record of JSON", 1, place)
        return pa.Table.from_pylist(rows, _SCHEMA)

    def _checked(self, table: pa.Table, minute: int, where: str) -> _Records:
        """Return the records without those of unknown series, and without impossible times and
        values.
        """
        codes, names = _coded(table)
        ours = [series_of(*name.split(_SEPARATOR)) for name in names]
        known = sorted({name for name in ours if name})
        place = {name: number for number, name in enumerate(known)}
        column_of = np.array([place.get(name or "", -1) for name in ours] or [-1])
        column = column_of[codes]
        at, value = (_floats(table[name]) for name in ("Timestamp", "Value"))
        has_time = np.isfinite(at) & (at >= EARLIEST_SECONDS)
        has_time &= np.abs(np.where(has_time, at, 0) - minute) <= LONGEST_SECONDS
        has_value = np.isfinite(value) & (np.abs(value) < 1e15)
        is_known = column >= 0
        for bad, why in (
            (~is_known, "no known series"),
            (is_known & ~has_time, "a time outside of the job"),
            (is_known & has_time & ~has_value, "no number as value"),
        ):
            self._tally.skip("records", why, int(bad.sum()), where)
        kept = is_known & has_time & has_value
        at_us = np.round(at[kept] * 1e6).astype("int64")
        return _Records(at_us, column[kept], value[kept], known).in_order()

    def _blocks(self, records: _Records) -> Iterator[Samples]:
        if not len(records.at_us):
            return
        starts = records.tick_starts()
        most = max(MOST_CELLS // max(len(records.names), 1), 1)
        for first in range(0, len(starts), most):
            end = first + most
            low = starts[first]
            high = starts[end] if end < len(starts) else len(records.at_us)
            yield self._block(records, starts[first:end] - low, low, high)

    def _block(self, records: _Records, starts: Whole, low: int, high: int) -> Samples:
        at_us = records.at_us[low:high]
        tick = np.repeat(np.arange(len(starts)), np.diff([*starts, high - low]))
        matrix = np.full((len(records.names), len(starts)), np.nan)
        matrix[records.column[low:high], tick] = records.value[low:high]
        held = int(np.isfinite(matrix).sum())
        self._tally.take("samples", held)
        self._tally.skip("records", "a second value of its series within 20 ms", high - low - held)
        times_ms = at_us[starts] // 1000
        self._cadence_ms = _cadence_ms(times_ms, self._cadence_ms)
        columns = {name: matrix[row] for row, name in enumerate(records.names)}
        columns = {name: values for name, values in columns.items() if not np.isnan(values).all()}
        self._clamp(columns)
        for name in [name for name in columns if name.endswith("_total")]:
            columns[name] = self._counter(name, columns[name], times_ms)
        for name, pattern in _MEANS.items():
            parts = [values for each, values in columns.items() if pattern.fullmatch(each)]
            if parts:
                # Unknown unless every core is known: the mean of some is not the machine's.
                columns[name] = np.round(np.mean(parts, axis=0), 2)
        self._last_ms = int(times_ms[-1])
        self.series |= columns.keys()
        return Samples(self._cadence_ms, times_ms, columns)

    def _clamp(self, columns: dict[str, Floats]) -> None:
        for name, values in columns.items():
            highest = 100.0 if name.endswith("_pct") else math.inf
            outside = int(((values < 0) | (values > highest)).sum())
            if outside:
                columns[name] = np.clip(values, 0.0, highest)
                self._tally.note("Values below 0 or above 100 % count as 0 and 100 %.")

    def _counter(self, name: str, rates: Floats, times_ms: Whole) -> Floats:
        """Return a rate per second as a counter: the rate at a tick is that of the time before
        it.
        """
        before = np.concatenate([[self._last_ms or times_ms[0]], times_ms[:-1]])
        seconds = np.minimum(times_ms - before, 2.5 * self._cadence_ms) / 1000
        grown = np.nancumsum(rates * seconds) + self._totals.get(name, 0.0)
        self._totals[name] = float(grown[-1])
        return np.where(np.isnan(rates), np.nan, np.floor(grown))


class _Records:
    """Records in the order of time: when, of which series, the value."""

    def __init__(self, at_us: Whole, column: Whole, value: Floats, names: list[str]) -> None:
        self.at_us, self.column, self.value, self.names = at_us, column, value, names

    @classmethod
    def none(cls) -> _Records:
        return cls(np.zeros(0, "int64"), np.zeros(0, "int64"), np.zeros(0), [])

    def in_order(self) -> _Records:
        if bool((np.diff(self.at_us) >= 0).all()):
            return self
        order = np.argsort(self.at_us, kind="stable")
        return _Records(self.at_us[order], self.column[order], self.value[order], self.names)

    def tick_starts(self) -> Whole:
        return np.flatnonzero(np.diff(self.at_us, prepend=self.at_us[:1] - 10**9) > SAME_TICK_US)

    def split(self) -> tuple[_Records, _Records]:
        """Return all but the last tick, which may go on in the next piece; and that."""
        starts = self.tick_starts()
        last = int(starts[-1]) if len(starts) else 0
        parts = slice(None, last), slice(last, None)
        first, rest = (
            _Records(self.at_us[p], self.column[p], self.value[p], self.names) for p in parts
        )
        return first, rest


def _joined(late: _Records, records: _Records) -> _Records:
    if not len(late.at_us):
        return records
    names = sorted({*late.names, *records.names})
    columns = [
        np.array([names.index(name) for name in part.names] or [0])[part.column]
        for part in (late, records)
    ]
    at_us = np.concatenate([late.at_us, records.at_us])
    value = np.concatenate([late.value, records.value])
    return _Records(at_us, np.concatenate(columns), value, names).in_order()


def _table(piece: bytes) -> pa.Table:
    return arrow_json.read_json(
        pa.BufferReader(piece),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(piece) + 1),
        parse_options=arrow_json.ParseOptions(
            explicit_schema=_SCHEMA, unexpected_field_behavior="ignore"
        ),
    )


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        record = parse_json(line)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    row: dict[str, Any] = {name: _text(record.get(name, "")) for name in _TEXTS}
    for name in ("Value", "Timestamp"):
        if name not in record:
            return None
        row[name] = _number(record[name])
    return row


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > 1e300:
        return math.nan
    return float(value)


def _text(value: object) -> str:
    return value[:200].encode("utf-8", "replace").decode() if isinstance(value, str) else ""


def _coded(table: pa.Table) -> tuple[Whole, list[str]]:
    """Return for each record the number of its type, name and dimension; and these, joined."""
    texts = [pc.fill_null(table[name].combine_chunks(), "") for name in _TEXTS]
    joined = pc.binary_join_element_wise(*texts, _SEPARATOR)
    encoded = joined.dictionary_encode()
    names = [name if name.count(_SEPARATOR) == 2 else 2 * _SEPARATOR for name in _names(encoded)]
    return encoded.indices.to_numpy().astype("int64"), names


def _names(encoded: Any) -> list[str]:
    # Arrow takes texts that aren't UTF-8 from JSON as they are.
    raw = encoded.dictionary.cast(pa.binary()).to_pylist()
    return [name.decode(errors="replace") for name in raw]


def _floats(column: pa.ChunkedArray) -> Floats:
    values: Floats = column.to_numpy().astype("float64")
    return values


def _cadence_ms(times_ms: Whole, before: int) -> int:
    """Return the nearest of SageMaker's intervals; another one rounded, so that ticks stay
    together.
    """
    if len(times_ms) < 3:
        return before
    measured = float(np.median(np.diff(times_ms)))
    nearest = min(_INTERVALS_MS, key=lambda each: abs(each - measured))
    if abs(nearest - measured) <= nearest / 5:
        return nearest
    return min(max(round(measured / 100) * 100, 100), 3_600_000)


def first_ms(source: Source, files: Iterable[SystemFile]) -> int | None:
    """Return the first tick of a node's first readable file."""
    for file in files:
        metrics = SystemMetrics(source, [file], Tally())
        first = next(metrics.samples(), None)
        if first is not None:
            return int(first.times_ms[0])
    return None
