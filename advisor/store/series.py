"""Series for charts: minimum, mean and maximum of each pixel's time span."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from advisor.store.chart_plan import Buckets, buckets_of, plan
from advisor.store.grid import counts, spread
from advisor.store.index import HOUR_MS, TIERS_SECONDS, ChunkRef, NodeHistory, from_ms
from advisor.store.objects import ObjectStore
from advisor.store.reading import NodeReader
from advisor.store.rows import Rows, join_rows
from rules.evidence import COUNTER_SUFFIX, is_counter

HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class SeriesView:
    """One series of one node in buckets of equal width.

    Attributes:
        series: the displayed name. A counter is shown as its rate (`shown_name`).
        t_seconds: bucket starts, seconds since the requested start, `width_seconds` apart.
        minimum, mean, maximum: same length; NaN: unknown.
        count: int64, the samples (a counter: the known rates) or steps in the bucket. 0 with a
            value: a neighbour's, within a gap too short to tell.
        unreadable: keys of this node's objects that couldn't be read; their samples are NaN.
    """

    node_key: str
    series: str
    unit: str
    width_seconds: float
    t_seconds: np.ndarray
    minimum: np.ndarray
    mean: np.ndarray
    maximum: np.ndarray
    count: np.ndarray
    unreadable: tuple[str, ...] = ()


def list_series(store: ObjectStore, nodes: Sequence[NodeHistory]) -> dict[str, list[str]]:
    """Return the series names of each node, from its chunks' headers and its hot segments."""
    return {node.key: _names(NodeReader(store, node), node) for node in nodes}


def read_series(
    store: ObjectStore,
    nodes: Sequence[NodeHistory],
    names: Collection[str],
    start: datetime,
    end: datetime,
    buckets: int,
    *,
    is_aligned: bool = False,
) -> list[SeriesView]:
    """Return the requested series of every node that has them, between `start` and `end`.

    Reads the coarsest tier that fills the buckets, from chunks of many hours where there are some:
    so the cost depends on `buckets` and not on the length of the run. An hour with uncompacted
    segments is read with them.

    Args:
        is_aligned: see `buckets_of`.
    """
    asked = buckets_of(start, end, buckets, is_aligned=is_aligned)
    views = (
        views_of(NodeReader(store, node, for_charts=True), node, names, start, asked)
        for node in nodes
    )
    return [view for of_node in views for view in of_node]


def views_of(
    reader: NodeReader, node: NodeHistory, names: Collection[str], start: datetime, buckets: Buckets
) -> list[SeriesView]:
    """Return the requested series that the node has."""
    rows = rows_of(reader, node, set(names), buckets) if names else {}
    drawn = [_view(node.key, n, rows[n], buckets, start) for n in names if n in rows]
    return [replace(view, unreadable=tuple(reader.unreadable)) for view in drawn]


def shown_name(series: str) -> tuple[str, str]:
    """Return the displayed name and unit of a series.

    A counter is drawn as its rate: `disk.read_bytes_total` as `disk.read_bytes` in `bytes/s`.
    """
    name = series.removesuffix(COUNTER_SUFFIX)
    unit = name.rsplit("_", 1)[-1]
    if not is_counter(series):
        return series, unit
    return name, f"{unit}/s"


def _names(reader: NodeReader, node: NodeHistory) -> list[str]:
    names: set[str] = set()
    hours = {
        ref.hour_ms: ref
        for ref in sorted(node.chunks, key=lambda r: -r.tier_seconds)
        if ref.kind == "samples"
    }
    for ref in hours.values():
        names |= reader.chunk_series(ref)
    for segment in node.segments:
        hot = reader.segment(segment)
        blocks = hot.blocks if hot else []
        names |= {name.split(":")[0] for block in blocks for name in block.columns}
    return sorted(names | reader.tail_series())


def rows_of(
    reader: NodeReader, node: NodeHistory, names: set[str] | None, buckets: Buckets
) -> dict[str, Rows]:
    """Return what the buckets hold of each series (None: all), in time order."""
    low, high = from_ms(buckets.start_ms), from_ms(buckets.end_ms - 1)
    chosen = plan(node, "chart_samples", reader.hours(low, high), buckets)
    parts: dict[str, list[Rows]] = {}
    for ref, hours in chosen.chunks:
        for name, rows in reader.chart_rows(ref, names).items():
            parts.setdefault(name, []).append(_in_hours(rows, hours, ref))
    for hour in chosen.hours:
        tier = max((t for t in TIERS_SECONDS if t <= buckets.tier_seconds), default=0)
        for name, rows in reader.rows(hour, names, tier):
            # Of aligned buckets no cell lies half outside, so nothing has to be moved inside.
            inside = rows if buckets.is_aligned else rows.clip(buckets.start_ms, buckets.end_ms)
            parts.setdefault(name, []).append(inside)
    by_name = {name: join_rows(rows) for name, rows in parts.items()}
    return {name: rows for name, rows in by_name.items() if len(rows)}


def _in_hours(rows: Rows, hours: set[int], ref: ChunkRef) -> Rows:
    if len(hours) == (ref.ends_at - ref.starts_at) // HOUR:
        return rows
    return rows.pick(np.isin(rows.at_ms // HOUR_MS * HOUR_MS, sorted(hours)))


def _view(node_key: str, name: str, rows: Rows, buckets: Buckets, start: datetime) -> SeriesView:
    grid = buckets.grid
    minimum, mean, maximum = spread(rows, grid, 0, grid.count)
    shown, unit = shown_name(name)
    starts = buckets.starts_seconds(start)
    known = (minimum, mean, maximum, counts(rows, grid))
    return SeriesView(node_key, shown, unit, buckets.width_seconds, starts, *known)
