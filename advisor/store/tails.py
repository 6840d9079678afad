"""Tails: the newest segments of a node's hour in one object, so that reading them opens few.

A tail is made again every minute while a run continues, and replaced once its hour is compacted: so
it is written fast rather than small, in Arrow's own format. Its members are segments that are no
longer read themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from advisor.store import chunks, tables
from advisor.store.chunks import Members
from advisor.store.parts import pack_parts, unpack_parts
from advisor.store.ticks import Ticks
from advisor.store.wanted import Wanted

_MAGIC = b"trimtab tail 1\n"
_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


@dataclass(frozen=True)
class Tail:
    """The content of some segments of one hour. Its parts are decoded when they are asked for."""

    members: Members
    sample_count: int
    step_count: int
    event_count: int
    parts: dict[str, pa.Buffer] = field(repr=False)

    def ticks(self, wanted: Wanted) -> list[Ticks]:
        """Return the ticks of the wanted series."""
        if "samples" not in self.parts:
            return []
        with chunks.damage_refused():
            schema = pa.ipc.open_file(self.parts["samples"]).schema
            columns = set(chunks.columns_of(schema.names, wanted))
            places = [place for place, name in enumerate(schema.names) if name in columns]
            options = pa.ipc.IpcReadOptions(included_fields=places, use_threads=False)
            table = pa.ipc.open_file(self.parts["samples"], options=options).read_all()
            return chunks.ticks_of_table(table.combine_chunks(), self.members)

    def steps(self) -> pa.Table:
        return self._table("steps", tables.STEP_SCHEMA)

    def events(self) -> pa.Table:
        return self._table("events", tables.EVENT_SCHEMA)

    def series(self) -> set[str]:
        if "samples" not in self.parts:
            return set()
        names = pa.ipc.open_file(self.parts["samples"]).schema.names
        return chunks.series_among(names) - set(chunks.KEYS)

    def _table(self, part: str, schema: pa.Schema) -> pa.Table:
        if part not in self.parts:
            return schema.empty_table()
        with chunks.damage_refused():
            return pa.ipc.open_file(self.parts[part]).read_all()


def encode_tail(ticks: list[Ticks], steps: pa.Table, events: pa.Table, members: Members) -> bytes:
    """Return the bytes of a tail; `decode_tail` is the way back."""
    samples = chunks.table_of(ticks) if ticks else pa.table({})
    named = {"samples": samples, "steps": steps, "events": events}
    parts = {name: _written(table) for name, table in named.items() if len(table)}
    header = {
        "members": members.as_json(),
        "counts": [sum(len(t.times_ms) * len(t.columns) for t in ticks), len(steps), len(events)],
    }
    return pack_parts(_MAGIC, header, parts)


def decode_tail(body: bytes) -> Tail:
    """Return the tail in the bytes of `encode_tail`.

    Raises:
        ChunkError: the bytes are not a tail, or damaged.
    """
    header, parts = unpack_parts(_MAGIC, body)
    with chunks.damage_refused():
        samples, steps, events = header["counts"]
        return Tail(Members.from_json(header["members"]), samples, steps, events, parts)


def _written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=_OPTIONS) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue())
