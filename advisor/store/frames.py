"""Reads a run for the rules: every node on one even grid, with its gaps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
from trimtab.wire import PHASES

from advisor.store import tables
from advisor.store.grid import Grid, Line
from advisor.store.index import TIERS_SECONDS, NodeHistory, to_ms, to_us
from advisor.store.objects import ObjectReader
from advisor.store.reading import Reader
from advisor.store.rows import is_counter
from rules.frame import EVENT_COLUMNS, STEP_COLUMNS, NodeFrame, RunFrame

_STEPS_READ = ["rank", "phase", "start_us", "duration_us", "data_wait_us", "samples", "count"]
_EVENTS_READ = ["time_ms", "kind", "data"]
"""The columns that rules read. Others, such as histograms, are for pages and would take memory."""
_PHASE = pd.CategoricalDtype(list(PHASES))


def load_frame(
    store: ObjectReader,
    nodes: Sequence[NodeHistory],
    started_at: datetime,
    ended_at: datetime,
    resolution_seconds: float,
    final: bool,
) -> tuple[RunFrame, tuple[str, ...]]:
    """The run between `started_at` and `ended_at`, and the keys of objects that couldn't be read.

    A cell of the grid holds the mean of a gauge's samples in it and a counter's last value; NaN in
    gaps (`rows.GAP_FACTOR`). With an unreadable object the frame isn't final. Reads hour by hour:
    memory grows with cells times series.
    """
    duration = (ended_at - started_at).total_seconds()
    count = max(int(np.ceil(round(duration / resolution_seconds, 9))), 1)
    grid = Grid(to_ms(started_at), resolution_seconds * 1000, count)
    readers = {node.key: Reader(store, node) for node in nodes}
    frames = {
        node.key: _node_frame(readers[node.key], node, started_at, ended_at, grid) for node in nodes
    }
    unreadable = tuple(key for reader in readers.values() for key in reader.unreadable)
    # Reading hour by hour fragments the memory, which the rules need.
    pa.system_memory_pool().release_unused()
    return RunFrame(resolution_seconds, duration, final and not unreadable, frames), unreadable


def read_steps(
    store: ObjectReader, nodes: Sequence[NodeHistory], start: datetime, end: datetime
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Steps that began within [start, end] as `STEP_COLUMNS` and `node`; seconds since `start`.

    And the keys of objects that couldn't be read.
    """
    return _of_nodes(store, nodes, start, end, STEP_COLUMNS)


def read_events(
    store: ObjectReader, nodes: Sequence[NodeHistory], start: datetime, end: datetime
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Events within [start, end] as `EVENT_COLUMNS` and `node`, and the unreadable keys."""
    return _of_nodes(store, nodes, start, end, EVENT_COLUMNS)


def _of_nodes(
    store: ObjectReader,
    nodes: Sequence[NodeHistory],
    start: datetime,
    end: datetime,
    columns: tuple[str, ...],
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    parts = []
    unreadable: list[str] = []
    for node in nodes:
        reader = Reader(store, node)
        hours = reader.hours(start, end)
        if columns is STEP_COLUMNS:
            tables_of_hours = [_steps(reader.steps(hour)[0], start, end) for hour in hours]
        else:
            tables_of_hours = [_events(reader.events(hour)[0], start, end) for hour in hours]
        parts += [table.assign(node=node.key) for table in tables_of_hours]
        unreadable += reader.unreadable
    having = [part for part in parts if len(part)]
    every = (
        pd.concat(having, ignore_index=True) if having else pd.DataFrame(columns=[*columns, "node"])
    )
    return every, tuple(unreadable)


def _node_frame(
    reader: Reader, node: NodeHistory, started_at: datetime, ended_at: datetime, grid: Grid
) -> NodeFrame:
    # A tier's cells start at the epoch, the grid's at the run: two per cell keep the edges close.
    tier = max((t for t in TIERS_SECONDS if 2000 * t <= grid.width_ms), default=0)
    lines: dict[str, Line] = {}
    steps = [_steps(tables.STEP_SCHEMA.empty_table(), started_at, ended_at)]
    events = [_events(tables.EVENT_SCHEMA.empty_table(), started_at, ended_at)]
    for hour in reader.hours(started_at, ended_at):
        for name, rows in reader.rows(hour, None, tier).items():
            inside = rows.within(to_ms(started_at), to_ms(ended_at))
            lines.setdefault(name, Line(grid, is_counter(name))).add(inside)
        steps.append(_steps(reader.steps(hour)[0], started_at, ended_at))
        events.append(_events(reader.events(hour)[0], started_at, ended_at))
    return NodeFrame(
        key=node.key,
        hardware=node.hardware,
        samples=_samples(lines, grid),
        steps=_one_after_another(steps),
        events=_one_after_another(events),
        intervals=tuple(_since(started_at, *interval) for interval in node.intervals),
    )


def _samples(lines: dict[str, Line], grid: Grid) -> pd.DataFrame:
    index = pd.Index(np.arange(grid.count) * (grid.width_ms / 1000), name="seconds")
    columns = {name: lines[name].finish() for name in sorted(lines)}
    return pd.DataFrame(columns, index=index, dtype="float64")


def _steps(table: pa.Table, start: datetime, end: datetime) -> pd.DataFrame:
    """`STEP_COLUMNS`, in time order: means over `count` steps, but all their samples."""
    rows = table.select(_STEPS_READ).to_pandas()
    rows = rows[rows["start_us"].between(to_us(start), to_us(end))]
    count = rows["count"]
    columns = {
        "rank": rows["rank"].astype("int32"),
        "phase": rows["phase"].astype(_PHASE),
        "start_seconds": (rows["start_us"] - to_us(start)) / 1e6,
        "duration_seconds": rows["duration_us"] / count / 1e6,
        "data_wait_seconds": rows["data_wait_us"].astype("float64") / count / 1e6,
        "samples": rows["samples"].astype("float64"),
        "count": count.astype("int32"),
    }
    return pd.DataFrame(columns, copy=False)


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
    """The rows of successive hours. Each is in order, so all are. The first has no rows and defines
    the column types.

    Empties `hours` column by column, because for a long run they take as much memory as the result.
    """
    having = [hour for hour in hours if len(hour)] or hours[:1]
    names = list(having[0].columns)
    joined = {n: pd.concat([h.pop(n) for h in having], ignore_index=True) for n in names}
    return pd.DataFrame(joined, copy=False)


def _since(started_at: datetime, start: datetime, end: datetime) -> tuple[float, float]:
    return (start - started_at).total_seconds(), (end - started_at).total_seconds()
