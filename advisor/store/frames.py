"""Reads a run for the rules: every node on one even grid, with its gaps."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from itertools import chain

import numpy as np
import pandas as pd
import pyarrow as pa
from trimtab.wire import PHASES

from advisor.store import stretches, tables
from advisor.store.columns import Columns, ColumnStore
from advisor.store.grid import SampleGrid
from advisor.store.index import TIERS_SECONDS, NodeHistory, to_ms, to_us
from advisor.store.objects import ObjectReader
from advisor.store.reading import NodeReader
from advisor.store.resolution import COARSER_BY, MOST_TICKS, coarsen, tick_seconds
from advisor.store.room import Room, TooFineError
from advisor.store.thinning import Events, ThinnedSteps
from rules.activity import needed_series
from rules.frame import EVENT_COLUMNS, NodeFrame, RunFrame
from rules.ticks import has_ticks

_STEPS_READ = ["rank", "start_us", "duration_us", "data_wait_us", "samples", "count", "tokens"]
_EVENTS_READ = ["time_ms", "kind", "data"]
"""The columns that rules look at; the rest would only take room: histograms and the slowest are for
pages."""
_GPU_BUSY = re.compile(r"gpu\d+\.busy_pct")


def load_frame(
    store: ObjectReader,
    nodes: Sequence[NodeHistory],
    started_at: datetime,
    ended_at: datetime,
    resolution_seconds: float,
    final: bool,
    alive: Callable[[], object] = lambda: None,
    carried: ColumnStore | None = None,
) -> tuple[RunFrame, tuple[str, ...]]:
    """Return the run between `started_at` and `ended_at`, and the keys of objects that couldn't be
    read.

    Of the series it has those that rules read (`rules.activity.needed_series`). A cell of the grid
    holds the mean of a gauge's samples in it and a counter's last value; NaN in gaps
    (`rows.GAP_FACTOR`). The series of `rules.ticks` also have single samples, several a cell.
    Stretches of which no node has anything stored have no cells. With an unreadable object the
    frame isn't final.

    Args:
        resolution_seconds: the finest width of a cell; wider where the run has many series.
        alive: called now and then while it is read.
        carried: what earlier readings kept of compacted hours. The frame is the same without.

    Raises:
        TooLargeError: the run has more than fits into memory (`room`).
    """
    duration = (ended_at - started_at).total_seconds()
    length, ticks = stretches.stored_seconds(nodes, started_at, ended_at), float(MOST_TICKS)
    newest = [NodeReader(store, node).newest_series(started_at, ended_at) for node in nodes]
    while True:
        widths = resolution_seconds, tick_seconds(resolution_seconds, length, ticks)
        cells, singles = (stretches.grid(nodes, started_at, ended_at, w) for w in widths)
        try:
            _check_fits(newest, cells.count, singles.count)
            reading = _Reading(store, started_at, ended_at, (cells, singles), Room(alive), carried)
            frames, unreadable = reading.frames(nodes)
            break
        except TooFineError:
            # In equal steps: the grid depends on what the run has, not on where it was noticed.
            resolution_seconds = coarsen(resolution_seconds, COARSER_BY)
            ticks /= COARSER_BY
    # What was read hour by hour leaves holes among what is kept: rules need the room.
    pa.system_memory_pool().release_unused()
    counted_in = widths[any(node.ticks is not None for node in frames.values())]
    frame = RunFrame(counted_in, duration, final and not unreadable, frames, resolution_seconds)
    return frame, unreadable


def _check_fits(newest: Iterable[AbstractSet[str]], cells: int, ticks: int) -> None:
    """Check the series of each node's newest hour. Raises TooFineError if they alone don't fit."""
    room = Room()
    for name in chain.from_iterable(map(needed_series, newest)):
        room.take_series(cells, ticks if has_ticks(name) else 0)


def _with_ticks(frames: dict[str, NodeFrame]) -> dict[str, NodeFrame]:
    """Return the frames without ticks, if no node has a series that has ticks."""
    if any(node.ticks is not None and len(node.ticks.columns) for node in frames.values()):
        return frames
    return {key: replace(node, ticks=None) for key, node in frames.items()}


@dataclass(frozen=True)
class _Reading:
    """A run between two times, on a grid of cells and one of ticks."""

    store: ObjectReader
    started_at: datetime
    ended_at: datetime
    grids: tuple[SampleGrid, SampleGrid]
    room: Room
    carried: ColumnStore | None

    def frames(self, nodes: Sequence[NodeHistory]) -> tuple[dict[str, NodeFrame], tuple[str, ...]]:
        steps, events = ThinnedSteps(), Events()
        frames: dict[str, NodeFrame] = {}
        unreadable: list[str] = []
        for node in nodes:
            # Not all nodes' readers at once: each keeps its last hour decoded.
            reader = NodeReader(self.store, node, self.room)
            frames[node.key] = self._node_frame(reader, node, steps, events)
            unreadable += reader.unreadable
        return _with_ticks(frames), tuple(unreadable)

    def _node_frame(
        self, reader: NodeReader, node: NodeHistory, all_steps: ThinnedSteps, all_events: Events
    ) -> NodeFrame:
        start, end = self.started_at, self.ended_at
        columns = Columns(*self.grids, (to_ms(start), to_ms(end)), self.room)
        steps: list[pd.DataFrame] = []
        events: list[pd.DataFrame] = []
        hours = reader.hours(start, end)
        for hour in hours:
            self._add_samples(reader, node.key, hour, columns, is_last=hour == hours[-1])
            all_steps.add(steps, _steps(reader.steps(hour)[0], start, end))
            if len(found := reader.events(hour)[0]):
                all_events.add(events, _events(found, start, end))
        samples, ticks = columns.tables()
        return NodeFrame(
            key=node.key,
            hardware=node.hardware,
            samples=samples,
            ticks=ticks,
            steps=_one_after_another(steps) if steps else _no_steps(),
            events=_one_after_another(events) if events else _no_events(),
            intervals=tuple(_since(start, *interval) for interval in node.intervals),
        )

    def _add_samples(
        self, reader: NodeReader, node_key: str, hour_ms: int, columns: Columns, is_last: bool
    ) -> None:
        """Add samples from what is carried, if the hour is compacted; else from its objects."""
        objects = reader.read_compacted(hour_ms) if self.carried else ()
        name = columns.name_of(objects) if objects else ""
        body = self.carried.find(node_key, name) if self.carried and name else None
        if body is None or not columns.take(body):
            # A tier's cells count from the epoch, the grid's from the run: two a cell keep edges
            # near.
            width_ms = self.grids[0].width_ms
            tier = max((t for t in TIERS_SECONDS if 2000 * t <= width_ms), default=0)
            known = len(reader.unreadable)
            columns.add(reader.rows(hour_ms, needed_series, tier), is_last and not name)
            part = columns.part() if name else b""
            if self.carried and name and columns.is_whole and len(reader.unreadable) == known:
                self.carried.keep(node_key, name, hour_ms, part)
        gpus = sum(_GPU_BUSY.fullmatch(name) is not None for name in columns.names)
        self.room.take_hour(columns.series, gpus)


def _steps(table: pa.Table, start: datetime, end: datetime) -> pd.DataFrame:
    """Return `STEP_COLUMNS`, in time order: means over `count` steps, but all their samples."""
    start_us = table["start_us"].to_numpy()
    inside = (start_us >= to_us(start)) & (start_us <= to_us(end))
    columns = {name: table[name].to_numpy()[inside] for name in _STEPS_READ}
    count = columns["count"]
    columns = {
        "rank": columns["rank"].astype("int32"),
        "phase": _phases(table["phase"])[inside],
        "start_seconds": (columns["start_us"] - to_us(start)) / 1e6,
        "duration_seconds": columns["duration_us"] / count / 1e6,
        "data_wait_seconds": columns["data_wait_us"] / count / 1e6,
        "samples": columns["samples"].astype("float64"),
        "count": count.astype("int32"),
        "tokens": columns["tokens"].astype("float64"),
    }
    return pd.DataFrame(columns, copy=False)


@cache
def _no_steps() -> pd.DataFrame:
    """Return an empty table. Nobody changes it, as with every frame."""
    never = datetime.fromtimestamp(0, UTC)
    return _steps(tables.STEP_SCHEMA.empty_table(), never, never)


@cache
def _no_events() -> pd.DataFrame:
    never = datetime.fromtimestamp(0, UTC)
    return _events(tables.EVENT_SCHEMA.empty_table(), never, never)


@cache
def _phase_type() -> pd.CategoricalDtype:
    return pd.CategoricalDtype(list(PHASES))


def _phases(names: pa.ChunkedArray) -> pd.Categorical:
    """Return phases as numbers, without a string for each step."""
    encoded = names.combine_chunks().dictionary_encode()
    phases = _phase_type()
    places = phases.categories.get_indexer(encoded.dictionary.to_pylist())
    codes = np.append(places, -1)[encoded.indices.fill_null(len(places)).to_numpy()]
    return pd.Categorical.from_codes(codes, dtype=phases)


def _events(table: pa.Table, start: datetime, end: datetime) -> pd.DataFrame:
    rows = table.select(_EVENTS_READ).to_pandas()
    rows = rows[rows["time_ms"].between(to_ms(start), to_ms(end))].reset_index(drop=True)
    events = pd.DataFrame(
        {
            "time_seconds": (rows["time_ms"] - to_ms(start)) / 1000.0,
            "kind": rows["kind"].astype("str"),
            "data": pd.Series([json.loads(data) for data in rows["data"]], dtype="object"),
        }
    )
    return events[list(EVENT_COLUMNS)]


def _one_after_another(hours: list[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of successive hours, of at least one. Each is in order, so all are.

    Empties `hours` column by column, because for a long run they take as much memory as the result.
    """
    having = [hour for hour in hours if len(hour)] or hours[:1]
    if len(having) == 1:
        return having[0]
    names = list(having[0].columns)
    joined = {n: pd.concat([h.pop(n) for h in having], ignore_index=True) for n in names}
    return pd.DataFrame(joined, copy=False)


def _since(started_at: datetime, start: datetime, end: datetime) -> tuple[float, float]:
    return (start - started_at).total_seconds(), (end - started_at).total_seconds()
