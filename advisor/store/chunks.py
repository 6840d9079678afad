"""Chunks: Parquet files that any tool can open, small, with whole numbers kept whole.

Raw samples are wide, with a column per series, so that one series can be read alone. Tiers are
long, with a row per series and cell, because footers of wide ones would outweigh the data. Every
chunk names its segments, so that a segment that is briefly listed beside its chunk is not counted
twice.
"""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from advisor.store.index import SegmentRef
from advisor.store.rows import FIELDS, Rows, no_histograms
from advisor.store.segments import HotSegment
from advisor.store.ticks import SessionKey, TickColumn, Ticks, from_arrow
from advisor.store.wanted import Wanted, columns_among, select_wanted

_METADATA = b"trimtab"
KEYS = ("session", "cadence_ms", "time_ms")
_TIER_ROW_GROUP = 2048
"""Small, so that a few series are read without the rest; 60 s tiers of 30 series fit in one."""
_FEW_VALUES = 0.5
"""A dictionary saves space if at most this share of the values are distinct."""


class ChunkError(ValueError):
    """The bytes are not a chunk."""


@dataclass
class Members:
    """The segments that a chunk was made of."""

    seqs: dict[SessionKey, set[int]] = field(default_factory=lambda: defaultdict(set))

    def add(self, session: SessionKey, seqs: Iterable[int]) -> None:
        self.seqs[session].update(seqs)

    def add_all(self, segments: Iterable[HotSegment]) -> None:
        for segment in segments:
            self.add(segment.session, [segment.seq])

    def update(self, other: Members) -> None:
        for session, seqs in other.seqs.items():
            self.add(session, seqs)

    def holds(self, ref: SegmentRef) -> bool:
        return any(s.id == ref.session_id and ref.seq in seqs for s, seqs in self.seqs.items())

    def count(self) -> int:
        return sum(len(seqs) for seqs in self.seqs.values())

    def missing_from(self, other: Members) -> bool:
        return any(seqs - other.seqs.get(session, set()) for session, seqs in self.seqs.items())

    def as_json(self) -> list[Any]:
        return [[*session, _ranges(self.seqs[session])] for session in sorted(self.seqs)]

    @classmethod
    def from_json(cls, document: list[Any]) -> Members:
        members = cls()
        for started_us, session_id, ranges in document:
            for low, high in ranges:
                members.add(SessionKey(started_us, session_id), range(low, high + 1))
        return members


def _ranges(seqs: Collection[int]) -> list[list[int]]:
    """Return ascending inclusive ranges."""
    ranges: list[list[int]] = []
    for seq in sorted(seqs):
        if ranges and seq == ranges[-1][1] + 1:
            ranges[-1][1] = seq
        else:
            ranges.append([seq, seq])
    return ranges


def encode_ticks(ticks: list[Ticks], members: Members) -> bytes:
    """Encode raw samples of one node and hour."""
    return _written(table_of(ticks), members)


def table_of(ticks: list[Ticks]) -> pa.Table:
    """Return ticks with a column per series; null if unknown. `ticks_of_table` is the way back."""
    names = sorted(
        {n for each in ticks for n, column in each.columns.items() if column.known.any()}
    )
    lengths = [len(each.times_ms) for each in ticks]
    columns: dict[str, pa.Array] = {
        "session": pa.array(
            np.repeat([each.session.id for each in ticks], lengths).tolist(), pa.string()
        ),
        "cadence_ms": pa.array(np.repeat([each.cadence_ms for each in ticks], lengths), pa.int64()),
        "time_ms": pa.array(np.concatenate([each.times_ms for each in ticks]), pa.int64()),
    }
    columns |= {
        name: _stacked([each.columns.get(name) for each in ticks], lengths) for name in names
    }
    return pa.table(columns)


@contextmanager
def damage_refused() -> Iterator[None]:
    """Raise ChunkError for damage. Parquet's pages have no checksums: damaged bytes may show as any
    of these.
    """
    try:
        yield
    except (ValueError, LookupError, TypeError, OverflowError) as error:
        raise ChunkError(f"damaged: {type(error).__name__}: {error}") from error


@damage_refused()
def decode_ticks(body: bytes, wanted: Wanted = None) -> tuple[list[Ticks], Members]:
    """Return the ticks of the wanted series (thinned or not) that the chunk has, and its
    members.
    """
    file = _opened(body)
    members = _members(file)
    columns = columns_of(file.schema_arrow.names, wanted)
    table = file.read(columns=columns, use_threads=False).combine_chunks()
    return ticks_of_table(table, members), members


def columns_of(has: Sequence[str], wanted: Wanted) -> list[str]:
    """Return the columns that the ticks of the wanted series need, with their keys."""
    needed = columns_among(set(has) - set(KEYS), wanted)
    return [name for name in has if name in KEYS or name in needed]


def ticks_of_table(table: pa.Table, members: Members) -> list[Ticks]:
    sessions = {session.id: session for session in members.seqs}
    return [_ticks(part, sessions) for part in _tracks(table)]


@damage_refused()
def series_of(body: bytes) -> set[str]:
    """Return the series of a chunk of raw samples or of a tier, from its header only."""
    file = _opened(body)
    index = _metadata(file).get("series")
    names = index if index is not None else [n for n in file.schema_arrow.names if n not in KEYS]
    return series_among(names)


def series_among(columns: Iterable[str]) -> set[str]:
    """Return the series that columns of ticks hold, as single samples or as means of thinned
    ones.
    """
    return {n.removesuffix(":mean") for n in columns if ":" not in n or n.endswith(":mean")}


def encode_tier(series: dict[str, Rows], members: Members, left_out: Collection[str] = ()) -> bytes:
    """Encode one tier of one node, by series, then by time.

    Args:
        left_out: fields that nobody will ask for.
    """
    names = sorted(name for name, rows in series.items() if len(rows))
    lengths = [len(series[name]) for name in names]
    columns: dict[str, pa.Array] = {
        "series": pa.array(np.repeat(names, lengths).tolist(), pa.string())
    }
    for field_name in (name for name in FIELDS if name not in left_out):
        values = np.concatenate([getattr(series[name], field_name) for name in names])
        columns[field_name] = pa.array(values, from_pandas=True)
    starts = np.cumsum([0, *lengths]).tolist()
    index = {
        name: [start, length] for name, start, length in zip(names, starts, lengths, strict=False)
    }
    return _written(pa.table(columns), members, {"series": index}, _TIER_ROW_GROUP)


@damage_refused()
def decode_tier(
    body: bytes, wanted: Wanted = None, with_histograms: bool = True
) -> tuple[dict[str, Rows], Members]:
    """Return the rows of the wanted series that the chunk has, and its members."""
    file = _opened(body)
    index = _metadata(file)["series"]
    chosen = select_wanted(index.keys(), wanted)
    names = [name for name in index if name in chosen]
    groups = sorted({g for name in names for g in _groups(*index[name])})
    place = {group: number for number, group in enumerate(groups)}
    left_out = () if with_histograms else ("histogram",)
    fields = [n for n in FIELDS if n in file.schema_arrow.names and n not in left_out]
    table = file.read_row_groups(groups, columns=fields, use_threads=False)
    arrays = {name: table[name].to_numpy() for name in fields}
    # Older tiers and those of charts have none.
    found = arrays.setdefault("histogram", no_histograms(len(table)))
    arrays.setdefault("last", np.full(len(table), np.nan))
    if any(each is None or len(each) % 2 for each in found):
        raise ChunkError("a histogram that is no list of pairs")
    series = {}
    for name in names:
        first, length = index[name]
        group, offset = divmod(first, _TIER_ROW_GROUP)
        low = place[group] * _TIER_ROW_GROUP + offset
        series[name] = Rows(**{field: arrays[field][low : low + length] for field in FIELDS})
    return series, _members(file)


def encode_table(table: pa.Table, members: Members) -> bytes:
    """Encode steps or events of one node and hour."""
    return _written(table, members)


@damage_refused()
def decode_table(body: bytes, columns: Collection[str] | None = None) -> tuple[pa.Table, Members]:
    file = _opened(body)
    wanted = None if columns is None else list(columns)
    table = file.read(columns=wanted, use_threads=False)
    return table.replace_schema_metadata(None), _members(file)


def _groups(first: int, length: int) -> range:
    return range(first // _TIER_ROW_GROUP, (first + length - 1) // _TIER_ROW_GROUP + 1)


def _stacked(parts: list[TickColumn | None], lengths: list[int]) -> pa.Array:
    having = [part for part in parts if part is not None and part.known.any()]
    is_float = any(part.values.dtype.kind == "f" for part in having)
    kind = pa.float64() if is_float else pa.int64()
    arrays = [
        pa.nulls(length, kind) if part is None else _array(part, kind)
        for part, length in zip(parts, lengths, strict=True)
    ]
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _array(part: TickColumn, kind: pa.DataType) -> pa.Array:
    """Return the array, fast for what nearly all columns are: all known, and of the kind."""
    array = pa.array(part.values, mask=None if part.known.all() else ~part.known)
    return array if array.type == kind else array.cast(kind, safe=False)


def _tracks(table: pa.Table) -> Iterable[pa.Table]:
    """Yield the parts of a table with one session and cadence each, which are stored
    contiguously.
    """
    if not len(table):
        return
    codes = table["session"].combine_chunks().dictionary_encode().indices.to_numpy()
    cadences = table["cadence_ms"].to_numpy()
    changes = np.flatnonzero((np.diff(codes) != 0) | (np.diff(cadences) != 0)) + 1
    edges = [0, *changes.tolist(), len(table)]
    for low, high in pairwise(edges):
        yield table.slice(low, high - low)


def _ticks(part: pa.Table, sessions: dict[str, SessionKey]) -> Ticks:
    columns = {n: from_arrow(part[n].combine_chunks()) for n in part.column_names if n not in KEYS}
    return Ticks(
        session=sessions[part["session"][0].as_py()],
        cadence_ms=part["cadence_ms"][0].as_py(),
        times_ms=part["time_ms"].to_numpy(),
        columns={name: column for name, column in columns.items() if column.known.any()},
    )


def _opened(body: bytes) -> pq.ParquetFile:
    return pq.ParquetFile(pa.BufferReader(body))


def _metadata(file: pq.ParquetFile) -> dict[str, Any]:
    text = (file.metadata.metadata or {}).get(_METADATA)
    if text is None:
        raise ChunkError("a Parquet file, but not one that Trimtab wrote")
    metadata: dict[str, Any] = json.loads(text)
    return metadata


def _members(file: pq.ParquetFile) -> Members:
    return Members.from_json(_metadata(file)["members"])


def _written(
    table: pa.Table,
    members: Members,
    metadata: dict[str, Any] | None = None,
    row_group: int = 1 << 20,
) -> bytes:
    """Return Parquet bytes; equal content gives equal bytes."""
    document = json.dumps({"members": members.as_json(), **(metadata or {})}, separators=(",", ":"))
    target = io.BytesIO()
    encodings = {name: _encoding(table[name]) for name in table.column_names}
    with pq.ParquetWriter(
        target,
        table.schema,
        compression="zstd",
        compression_level=6,
        use_dictionary=[name for name, encoding in encodings.items() if not encoding] or False,
        column_encoding={name: e for name, e in encodings.items() if e} or None,
        write_statistics=False,
        store_schema=False,
    ) as writer:
        writer.write_table(table, row_group_size=row_group)
        writer.add_key_value_metadata({_METADATA: document.encode()})
    return target.getvalue()


def _encoding(column: pa.ChunkedArray) -> str:
    """Choose the encoding: for few values a dictionary (""), else differences for whole numbers,
    and split bytes for others.
    """
    if column.type not in (pa.int64(), pa.float64()):
        return ""
    known = len(column) - column.null_count
    if len(column.drop_null().unique()) <= _FEW_VALUES * known:
        return ""
    return "DELTA_BINARY_PACKED" if column.type == pa.int64() else "BYTE_STREAM_SPLIT"
