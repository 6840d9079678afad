"""Series as pages draw them: least, mean and greatest value of each pixel's span of time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pandas as pd

from advisor.store import chunks
from advisor.store.data import COUNTER_SUFFIX, STATISTICS, NodeData, is_counter
from advisor.store.index import NodeHistory
from advisor.store.objects import ObjectStore
from advisor.store.reading import TIERS_SECONDS, Reader
from advisor.store.segments import THINNED_SECONDS

GAP_FACTOR = 2.5
"""A hole longer than this many sampling intervals is a gap: nothing is known in it."""


@dataclass(frozen=True)
class SeriesView:
    """One series of one node in buckets of equal width.

    Attributes:
        series: the name; a counter is shown as its rate (`disk.read_bytes` in `bytes/s`).
        t_seconds: bucket starts, seconds since the asked start.
        minimum, mean, maximum: same length; NaN where nothing is known.
    """

    node_key: str
    series: str
    unit: str
    t_seconds: np.ndarray
    minimum: np.ndarray
    mean: np.ndarray
    maximum: np.ndarray


def list_series(store: ObjectStore, nodes: Sequence[NodeHistory]) -> dict[str, list[str]]:
    """The names that each node has, from its newest segment and its chunks' headers."""
    return {node.key: _names(Reader(store), node) for node in nodes}


def read_series(
    store: ObjectStore,
    nodes: Sequence[NodeHistory],
    names: Collection[str],
    start: datetime,
    end: datetime,
    buckets: int,
) -> list[SeriesView]:
    """Every asked series of every node that has it, between `start` and `end`.

    Reads the coarsest tier that still fills the buckets, so the cost follows `buckets` and not the
    length of the run.
    """
    width_seconds = max((end - start).total_seconds() / max(buckets, 1), 1e-3)
    # Cells count from the epoch, not from the run: two a bucket keep the edges near the truth.
    tier = max((t for t in TIERS_SECONDS if 2 * t <= width_seconds), default=0)
    views = []
    for node in nodes:
        data = Reader(store).node(node, start, end, set(names), tier)
        for name in names:
            points = _points(data, name, tier)
            if len(points):
                views.append(_view(node.key, name, points, start, end, width_seconds))
    return views


def shown_name(series: str) -> tuple[str, str]:
    """The name and unit under which a series is drawn: counters become rates."""
    name = series.removesuffix(COUNTER_SUFFIX)
    unit = name.rsplit("_", 1)[-1]
    if not is_counter(series):
        return series, unit
    return name, f"{unit}/s"


def _names(reader: Reader, node: NodeHistory) -> list[str]:
    found: set[str] = set()
    for ref in [r for r in node.chunks if (r.kind, r.tier_seconds) == ("samples", 60)]:
        columns = reader.read(ref.key, chunks.names) or []
        found.update(name.rsplit(":", 1)[0] for name in columns if ":" in name)
    for newest in sorted(node.segments, key=lambda s: s.start_ms)[-1:]:
        data = reader.segment(newest)
        found.update(data.samples.columns if data else ())
    return sorted(found)


def _points(data: NodeData, name: str, tier: int) -> pd.DataFrame:
    """`min`, `mean`, `max` by time_ms; counters as rates per second."""
    tables = [_raw_points(data, name)] if not tier else []
    rollup = data.rollups[tier or THINNED_SECONDS]
    if f"{name}:mean" in rollup:
        part = rollup[[f"{name}:{s}" for s in STATISTICS]].dropna()
        part.columns = list(STATISTICS)
        tables.append(part)
    points = pd.concat([t for t in tables if len(t)]) if any(len(t) for t in tables) else None
    if points is None:
        return pd.DataFrame()
    points = points.sort_index(kind="stable")
    return _rates(points) if is_counter(name) else points


def _raw_points(data: NodeData, name: str) -> pd.DataFrame:
    if name not in data.samples:
        return pd.DataFrame()
    known = data.samples[name].dropna()
    return pd.DataFrame({"min": known, "mean": known, "max": known, "count": 1.0})


def _rates(points: pd.DataFrame) -> pd.DataFrame:
    """Growth per second since the point before; unknown across a reset or a gap."""
    seconds = np.diff(points.index.to_numpy()) / 1000.0
    growth = np.diff(points["max"].to_numpy())
    interval = np.median(seconds) if len(seconds) else 0.0
    known = (growth >= 0) & (seconds > 0) & (seconds <= GAP_FACTOR * interval)
    rate = np.where(known, growth / np.where(seconds > 0, seconds, 1), np.nan)
    table = pd.DataFrame({"min": rate, "mean": rate, "max": rate, "count": 1.0})
    table.index = points.index[1:]
    return table.dropna()


def _view(
    node_key: str, name: str, points: pd.DataFrame, start: datetime, end: datetime, width: float
) -> SeriesView:
    seconds = points.index.to_numpy() / 1000.0 - start.timestamp()
    length = (end - start).total_seconds()
    # A bucket narrower than the sampling would stay empty and look like a gap.
    interval = float(np.median(np.diff(seconds))) if len(seconds) > 2 else width
    width = max(width, interval * 1.001)
    count = max(int(np.ceil(length / width)), 1)
    bucket = np.clip((seconds / width).astype("int64"), 0, count - 1)
    grouped = points.groupby(bucket)
    weighted = (points["mean"] * points["count"]).groupby(bucket).sum()
    shown, unit = shown_name(name)
    every = np.arange(count)
    return SeriesView(
        node_key=node_key,
        series=shown,
        unit=unit,
        t_seconds=every * width,
        minimum=_filled(grouped["min"].min().reindex(every), width, interval),
        mean=_filled((weighted / grouped["count"].sum()).reindex(every), width, interval),
        maximum=_filled(grouped["max"].max().reindex(every), width, interval),
    )


def _filled(values: pd.Series, width: float, interval: float) -> np.ndarray:
    """Jitter may leave one bucket between two ticks empty; that is no gap."""
    limit = int(GAP_FACTOR * interval / width) - 1
    if limit < 1:
        return values.to_numpy(dtype=float)
    holes = values.isna()
    length = holes.groupby((~holes).cumsum()).transform("sum")
    bridged = values.interpolate(limit_area="inside")
    return bridged.where(~holes | (length <= limit)).to_numpy(dtype=float)
