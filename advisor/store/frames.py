"""A run as the rules see it: every node on one even grid, with its gaps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime

import numpy as np
import pandas as pd

from advisor.store.data import NodeData, is_counter
from advisor.store.index import NodeHistory
from advisor.store.objects import ObjectStore
from advisor.store.reading import TIERS_SECONDS, Reader
from advisor.store.segments import THINNED_SECONDS
from rules.frame import EVENT_COLUMNS, STEP_COLUMNS, NodeFrame, RunFrame


def load_frame(
    store: ObjectStore,
    nodes: Sequence[NodeHistory],
    started_at: datetime,
    ended_at: datetime,
    resolution_seconds: float,
    final: bool,
) -> tuple[RunFrame, tuple[str, ...]]:
    """The run between `started_at` and `ended_at`, and the keys of objects that couldn't be read.

    A cell of the grid holds the mean of a gauge's samples in it and a counter's last value; NaN
    where there is no sample. Memory grows with cells times series.
    """
    reader = Reader(store)
    duration = (ended_at - started_at).total_seconds()
    tier = max((t for t in TIERS_SECONDS if t <= resolution_seconds), default=0)
    frames = {}
    for node in nodes:
        # A millisecond more: the last tick may fall on the very end.
        data = reader.node(node, started_at, ended_at + pd.Timedelta(milliseconds=1), None, tier)
        frames[node.key] = NodeFrame(
            key=node.key,
            hardware=node.hardware,
            samples=_grid(data, tier, started_at, duration, resolution_seconds),
            steps=_steps(data.steps, started_at),
            events=_events(data.events, started_at),
            intervals=tuple(_since(started_at, *interval) for interval in node.intervals),
        )
    frame = RunFrame(resolution_seconds, duration, final and not reader.unreadable, frames)
    return frame, tuple(reader.unreadable)


def _grid(
    data: NodeData, tier: int, started_at: datetime, duration: float, resolution: float
) -> pd.DataFrame:
    count = max(int(np.ceil(duration / resolution)), 1)
    rollups = data.rollups[tier or THINNED_SECONDS]
    summarised = _by_cell(_of_rollup(rollups), started_at, resolution, count)
    raw = _by_cell(data.samples, started_at, resolution, count)
    grid = raw.combine_first(summarised).reindex(range(count))
    grid.index = pd.Index(np.arange(count) * resolution, name="seconds")
    return grid.astype("float64")


def _of_rollup(rollups: pd.DataFrame) -> pd.DataFrame:
    """The one value of a cell that stands for it: a gauge's mean, a counter's greatest."""
    names = sorted({name.rsplit(":", 1)[0] for name in rollups.columns})
    columns = {n: rollups[f"{n}:{'max' if is_counter(n) else 'mean'}"] for n in names}
    return pd.DataFrame(columns, index=rollups.index)


def _by_cell(
    samples: pd.DataFrame, started_at: datetime, resolution: float, count: int
) -> pd.DataFrame:
    since_ms = samples.index.to_numpy(dtype="int64") - round(started_at.timestamp() * 1000)
    cell = np.clip(since_ms // round(resolution * 1000), 0, count - 1)
    grouped = samples.groupby(cell)
    gauges = [name for name in samples.columns if not is_counter(name)]
    counters = [name for name in samples.columns if is_counter(name)]
    parts = [grouped[gauges].mean()] if gauges else []
    parts += [grouped[counters].last()] if counters else []
    return pd.concat(parts, axis=1) if parts else pd.DataFrame(index=pd.Index([], dtype="int64"))


def _steps(steps: pd.DataFrame, started_at: datetime) -> pd.DataFrame:
    start_us = round(started_at.timestamp() * 1_000_000)
    table = pd.DataFrame(
        {
            "rank": steps["rank"],
            "phase": steps["phase"],
            "start_seconds": (steps["start_us"] - start_us) / 1e6,
            "duration_seconds": steps["duration_us"] / 1e6,
            "data_wait_seconds": steps["data_wait_us"] / 1e6,
            "samples": steps["samples"] * steps["count"],
            "count": steps["count"],
        }
    )
    return table[list(STEP_COLUMNS)]


def _events(events: pd.DataFrame, started_at: datetime) -> pd.DataFrame:
    start_ms = round(started_at.timestamp() * 1000)
    table = pd.DataFrame(
        {
            "time_seconds": (events["time_ms"] - start_ms) / 1000.0,
            "kind": events["kind"],
            "data": [json.loads(data) for data in events["data"]],
        }
    )
    return table[list(EVENT_COLUMNS)]


def _since(started_at: datetime, start: datetime, end: datetime) -> tuple[float, float]:
    return (start - started_at).total_seconds(), (end - started_at).total_seconds()
