"""Stores a recording as chunks, as if it had been uploaded and compacted.

Memory: an hour of one node. Equal recordings give equal chunks, so that storing one again
overwrites its objects with the same content.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from uuid import UUID, uuid5

import numpy as np
import pyarrow as pa

from advisor.importers.recording import (
    METRIC,
    Happening,
    Part,
    RecordedMachine,
    RecordedNode,
    Recording,
    Samples,
    SignOfLife,
    Steps,
    Whole,
)
from advisor.importers.tally import Tally
from advisor.store import chunks, tables, ticks
from advisor.store.chunks import Members
from advisor.store.index import (
    HOUR_MS,
    TIERS_SECONDS,
    ChunkKind,
    ChunkRef,
    NodeHistory,
    from_ms,
    to_ms,
    to_us,
)
from advisor.store.objects import Objects
from advisor.store.reading import NodeReader
from advisor.store.room import MOST_HOUR_EVENTS, MOST_HOUR_SAMPLES, MOST_HOUR_STEPS
from advisor.store.ticks import SessionKey, TickColumn, Ticks
from rules.frame import Hardware

HOUR = timedelta(hours=1)
SEQ = 0
"""An import is one upload."""
LONGEST = timedelta(days=30)
"""The longest time of a recording. Later records are taken to be damaged."""
_MOST_SERIES = 4_000
_MOST_WHOLE = 2.0**53
"""The largest number up to which floats hold every whole one."""
_MOST_HELD_EVENTS = 100_000
"""The most events that aren't written yet: 30 MB."""


@dataclass(frozen=True)
class StoredNode:
    """One node of a stored recording."""

    name: str
    session_id: UUID
    started_at: datetime
    ended_at: datetime
    finest_ms: int
    """The shortest interval between samples."""
    series: frozenset[str]
    chunks: tuple[ChunkRef, ...]
    gpus: int
    """The number of its GPUs, if that is known without a sample of them."""
    machine: RecordedMachine
    prefix: str
    """The prefix of the keys of its objects, and of those that an earlier import of it made."""

    def history(self, key: str, facts: Hardware) -> NodeHistory:
        return NodeHistory(key, facts, ((self.started_at, self.ended_at),), (), self.chunks)


def session_id(run_id: UUID, node: str) -> UUID:
    """Return the same id for the same run and node, so that importing again replaces."""
    return uuid5(run_id, f"import/{node}")


def store_recording(
    store: Objects,
    recording: Recording,
    run_id: UUID,
    tally: Tally,
    *,
    held: tuple[datetime | None, datetime | None] = (None, None),
    state: str = "",
    with_tiers: bool = True,
    alive: Callable[[], object] = lambda: None,
) -> list[StoredNode]:
    """Write all chunks of a recording.

    Args:
        held: when all of its machines were held, as their platform says; None: unknown.
        state: how the run ended; as the recording says by default.
        with_tiers: for charts. A reader of a single pass needs none.
        alive: called now and then.
    """
    nodes = []
    for node in recording.nodes:
        writer = _Writer(store, run_id, node, tally, held, state or recording.state)
        for part in recording.parts(node):
            writer.add(part)
            alive()
        nodes.append(writer.finish(with_tiers))
        alive()
    return nodes


def store_unrecorded(
    store: Objects, run_id: UUID, node: RecordedNode, tally: Tally, state: str
) -> StoredNode:
    """Write the end of a machine that the run held, but of which there is no recording."""
    return _Writer(store, run_id, node, tally, (None, None), state).finish(with_tiers=False)


@dataclass
class _Hour:
    """The parts of one hour that aren't written yet."""

    samples: list[Ticks] = field(default_factory=list)
    steps: list[Steps] = field(default_factory=list)
    events: list[tuple[object, ...]] = field(default_factory=list)


class _Writer:
    """One node's hours. The parts of each kind come roughly in the order of time."""

    def __init__(
        self,
        store: Objects,
        run_id: UUID,
        node: RecordedNode,
        tally: Tally,
        held: tuple[datetime | None, datetime | None],
        state: str,
    ) -> None:
        self._store, self._tally, self._node, self._state = store, tally, node, state
        start = min(filter(None, (from_ms(node.started_ms), held[0])))
        self._started_at = start
        self._session = SessionKey(to_us(start), str(session_id(run_id, node.name)))
        self._prefix = f"runs/{run_id}/imports/{self._session.id}"
        self._end_ms = max(node.ended_ms or 0, to_ms(held[1]) if held[1] else 0, node.started_ms)
        self._hours: dict[int, _Hour] = defaultdict(_Hour)
        self._sizes: dict[tuple[int, str], int] = defaultdict(int)
        self._refs: dict[str, ChunkRef] = {}
        self._series: set[str] = set()
        self._finest_ms = 3_600_000
        self._last: dict[type, int] = {}
        self._held_events = 0

    def add(self, part: Part) -> None:
        if isinstance(part, Samples):
            self._add_samples(part)
        elif isinstance(part, Steps):
            self._add_steps(part)
        elif isinstance(part, SignOfLife):
            if self._inside(np.array([part.until_ms])).all():
                self._end_ms = max(self._end_ms, part.until_ms)
        else:
            self._add_event(part)

    def finish(self, with_tiers: bool) -> StoredNode:
        end = self._end_ms - to_ms(self._started_at)
        data = {"state": self._state, "imported": True, "seconds": end / 1000}
        self._add_event(Happening(self._end_ms, "session_end", data))
        for hour in sorted(self._hours):
            self._flush(hour)
        if with_tiers:
            self._add_tiers()
        return StoredNode(
            self._node.name,
            UUID(self._session.id),
            self._started_at,
            from_ms(self._end_ms),
            self._finest_ms,
            frozenset(self._series),
            tuple(self._refs.values()),
            self._node.gpus,
            self._node.machine,
            self._prefix,
        )

    def _add_samples(self, part: Samples) -> None:
        columns = {n: v for n, v in part.columns.items() if self._is_kept(n)}
        outside = ~self._inside(part.times_ms)
        self._lose("samples", sum(_known(values[outside]) for values in columns.values()))
        for hour, chosen in self._by_hour(part.times_ms):
            cells = len(columns) * int(chosen.sum())
            if not columns or not self._fits(hour, "samples", cells, MOST_HOUR_SAMPLES):
                continue
            kept = {name: _column(values[chosen]) for name, values in columns.items()}
            kept = {name: each for name, each in kept.items() if each.known.any()}
            times = part.times_ms[chosen]
            self._hours[hour].samples.append(
                ticks.sort_ticks(self._session, part.cadence_ms, times, kept)
            )
            self._series |= kept.keys()
        self._finest_ms = min(self._finest_ms, part.cadence_ms)
        self._flush_before(Samples, part.times_ms)

    def _add_steps(self, part: Steps) -> None:
        start_ms = part.start_us // 1000
        self._lose("steps", int((~self._inside(start_ms)).sum()))
        for hour, chosen in self._by_hour(start_ms):
            if self._fits(hour, "steps", int(chosen.sum()), MOST_HOUR_STEPS):
                self._hours[hour].steps.append(_chosen(part, chosen))
        ends_ms = (part.start_us + part.duration_us) // 1000
        inside = ends_ms[self._inside(start_ms) & self._inside(ends_ms)]
        self._end_ms = max(self._end_ms, int(inside.max(initial=0)))
        self._flush_before(Steps, start_ms)

    def _add_event(self, part: Happening) -> None:
        hour, what = part.time_ms // HOUR_MS * HOUR_MS, "events"
        if part.kind == METRIC:
            what = "metrics"
            if not self._inside(np.array([part.time_ms])).all():
                self._lose(what, 1)
                return
            self._end_ms = max(self._end_ms, part.time_ms)
        if self._fits(hour, what, 1, MOST_HOUR_EVENTS // 2):
            data = json.dumps(part.data, sort_keys=True)
            row = part.time_ms, self._session.id, SEQ, part.kind, data
            self._hours[hour].events.append(row)
            self._held_events += 1
        if self._held_events >= _MOST_HELD_EVENTS:
            for hour, held in self._hours.items():
                self._put_events(hour, held)
            self._held_events = 0

    def _is_kept(self, name: str) -> bool:
        if name in self._series or len(self._series) < _MOST_SERIES:
            return True
        self._tally.skip("series", f"more than {_MOST_SERIES:,} of one node")
        return False

    def _lose(self, what: str, count: int) -> None:
        self._tally.lose(what, "before the first record, or more than 30 days after it", count)

    def _by_hour(self, times_ms: Whole) -> Iterator[tuple[int, np.ndarray]]:
        """Yield each hour of these times, with its rows."""
        inside = self._inside(times_ms)
        if not inside.any():
            return
        self._end_ms = max(self._end_ms, int(times_ms[inside].max()))
        hours = times_ms // HOUR_MS
        for hour in np.unique(hours[inside]).tolist():
            yield hour * HOUR_MS, inside & (hours == hour)

    def _inside(self, times_ms: Whole) -> np.ndarray:
        first = to_ms(self._started_at)
        return (times_ms >= first) & (times_ms < first + LONGEST // timedelta(milliseconds=1))

    def _fits(self, hour: int, what: str, count: int, most: int) -> bool:
        self._sizes[hour, what] += count
        if self._sizes[hour, what] <= most:
            return True
        self._tally.lose(what, f"more than {most:,} of one node in one hour", count)
        return False

    def _step_table(self, part: Steps) -> pa.Table:
        count, waits = len(part.start_us), part.data_wait_us
        given = {
            "start_us": part.start_us,
            "session": pa.array([self._session.id]).take(pa.array(np.zeros(count, "int64"))),
            "seq": np.full(count, SEQ),
            "rank": np.full(count, part.rank),
            "phase": pa.array([part.phase]).take(pa.array(np.zeros(count, "int64"))),
            "count": np.ones(count, "int64"),
            "duration_us": part.duration_us,
        } | ({} if waits is None else {"data_wait_us": waits})
        arrays = [
            pa.array(given[each.name], each.type)
            if each.name in given
            else pa.nulls(count, each.type)
            for each in tables.STEP_SCHEMA
        ]
        return pa.table(arrays, tables.STEP_SCHEMA)

    def _flush_before(self, kind: type, times_ms: Whole) -> None:
        """Write the hours that are over for every kind that has come so far."""
        if not len(times_ms):
            return
        self._last[kind] = int(times_ms[-1]) // HOUR_MS * HOUR_MS
        for hour in [hour for hour in self._hours if hour < self._last[kind]]:
            held = self._hours[hour]
            if kind is Samples and held.samples:
                self._put_samples(hour, held)
            elif kind is Steps and held.steps:
                self._put_steps(hour, held)

    def _flush(self, hour: int) -> None:
        held = self._hours.pop(hour)
        if held.samples:
            self._put_samples(hour, held)
        if held.steps:
            self._put_steps(hour, held)
        self._put_events(hour, held)

    def _put_samples(self, hour: int, held: _Hour) -> None:
        body = chunks.encode_ticks(ticks.merge_ticks(held.samples), self._members())
        self._put(hour, "samples", 0, body)
        held.samples = []

    def _put_steps(self, hour: int, held: _Hour) -> None:
        parts = map(self._step_table, _joined(held.steps))
        table = tables.merge_tables(parts, tables.STEP_SCHEMA)
        self._put(hour, "steps", 0, chunks.encode_table(table, self._members()))
        held.steps = []

    def _put_events(self, hour: int, held: _Hour) -> None:
        if held.events:
            events = tables.table_from_rows([held.events], tables.EVENT_SCHEMA)
            table = tables.merge_tables([events], tables.EVENT_SCHEMA)
            self._put(hour, "events", 0, chunks.encode_table(table, self._members()))
            held.events = []

    def _add_tiers(self) -> None:
        raw = tuple(self._refs.values())
        history = NodeHistory(self._node.name, Hardware(), (), (), raw)
        reader = NodeReader(self._store, history)
        for hour in sorted({ref.hour_ms for ref in raw if ref.kind == "samples"}):
            for tier in TIERS_SECONDS:
                rows = dict(reader.rows(hour, None, tier))
                if rows:
                    body = chunks.encode_tier(rows, self._members())
                    self._put(hour, "samples", tier, body)

    def _members(self) -> Members:
        members = Members()
        members.add(self._session, [SEQ])
        return members

    def _put(self, hour: int, kind: ChunkKind, tier: int, body: bytes) -> None:
        digest = hashlib.sha256(body).hexdigest()[:32]
        at = from_ms(hour)
        key = f"{self._prefix}/{at:%Y%m%dT%H}-{kind}-{tier}-{digest}.parquet"
        self._store.put(key, body)
        self._refs[key] = ChunkRef(key, kind, tier, at, at + HOUR, len(body))


def _chosen(part: Steps, chosen: np.ndarray) -> Steps:
    """Return these rows of the part."""
    waits = part.data_wait_us
    return replace(
        part,
        start_us=part.start_us[chosen],
        duration_us=part.duration_us[chosen],
        data_wait_us=None if waits is None else waits[chosen],
    )


def _joined(parts: Iterable[Steps]) -> Iterator[Steps]:
    """Yield one part for each rank and phase: a part is of a file, and files are of a minute."""
    alike: dict[tuple[object, ...], list[Steps]] = defaultdict(list)
    for part in parts:
        alike[part.rank, part.phase, part.data_wait_us is None].append(part)
    for same in alike.values():
        waits = [part.data_wait_us for part in same if part.data_wait_us is not None]
        yield replace(
            same[0],
            start_us=np.concatenate([part.start_us for part in same]),
            duration_us=np.concatenate([part.duration_us for part in same]),
            data_wait_us=np.concatenate(waits) if waits else None,
        )


def _known(values: np.ndarray) -> int:
    return int(np.isfinite(values).sum())


def _column(values: np.ndarray) -> TickColumn:
    """Return the column, with whole numbers as integers, which are stored smaller."""
    known = np.isfinite(values)
    filled = np.where(known, values, 0.0)
    if bool(np.all((np.abs(filled) <= _MOST_WHOLE) & (filled == np.trunc(filled)))):
        return TickColumn(filled.astype("int64"), known)
    return TickColumn(filled, known)
