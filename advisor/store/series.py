"""Series for charts: minimum, mean and maximum of each pixel's time span."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np

from advisor.store.grid import Grid, spread
from advisor.store.index import HOUR_MS, TIERS_SECONDS, NodeHistory, to_ms
from advisor.store.objects import ObjectStore
from advisor.store.reading import Reader
from advisor.store.rows import Rows, joined
from rules.evidence import COUNTER_SUFFIX, is_counter


@dataclass(frozen=True)
class SeriesView:
    """One series of one node in buckets of equal width.

    Attributes:
        series: the displayed name. A counter is shown as its rate (`shown_name`).
        t_seconds: bucket starts, seconds since the requested start.
        minimum, mean, maximum: same length; NaN: unknown.
        unreadable: keys of this node's objects that couldn't be read; their samples are NaN.
    """

    node_key: str
    series: str
    unit: str
    t_seconds: np.ndarray
    minimum: np.ndarray
    mean: np.ndarray
    maximum: np.ndarray
    unreadable: tuple[str, ...] = ()


def list_series(store: ObjectStore, nodes: Sequence[NodeHistory]) -> dict[str, list[str]]:
    """The series names of each node, from its chunks' headers and its hot segments."""
    return {node.key: _names(Reader(store, node), node) for node in nodes}


def read_series(
    store: ObjectStore,
    nodes: Sequence[NodeHistory],
    names: Collection[str],
    start: datetime,
    end: datetime,
    buckets: int,
) -> list[SeriesView]:
    """The requested series of every node that has them, between `start` and `end`.

    Reads the coarsest tier that fills the buckets, so the cost depends on `buckets` and hardly on
    the length of the run. An hour with uncompacted segments is read raw.
    """
    width_ms = max((end - start) / timedelta(milliseconds=1) / max(buckets, 1), 1.0)
    tier = max((t for t in TIERS_SECONDS if t * 1000 <= width_ms), default=0)
    count = max(int(np.ceil(round((end - start) / timedelta(milliseconds=1) / width_ms, 9))), 1)
    grid = Grid.even(to_ms(start), width_ms, count)
    views = []
    for node in nodes:
        reader = Reader(store, node, with_histograms=False)
        rows = _rows(reader, set(names), start, end, tier)
        unreadable = tuple(reader.unreadable)
        views += [_view(node.key, n, rows[n], grid, unreadable) for n in names if n in rows]
    return views


def shown_name(series: str) -> tuple[str, str]:
    """The displayed name and unit of a series.

    A counter is drawn as its rate: `disk.read_bytes_total` as `disk.read_bytes` in `bytes/s`.
    """
    name = series.removesuffix(COUNTER_SUFFIX)
    unit = name.rsplit("_", 1)[-1]
    if not is_counter(series):
        return series, unit
    return name, f"{unit}/s"


def _names(reader: Reader, node: NodeHistory) -> list[str]:
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
    return sorted(names)


def _rows(
    reader: Reader, names: set[str], start: datetime, end: datetime, tier: int
) -> dict[str, Rows]:
    low_ms, high_ms = to_ms(start), to_ms(end)
    parts: dict[str, list[Rows]] = {}
    for hour in reader.hours(start, end):
        if hour >= high_ms or hour + HOUR_MS <= low_ms:
            continue
        for name, rows in reader.rows(hour, names, tier):
            parts.setdefault(name, []).append(rows.within(low_ms, high_ms))
    by_name = {name: joined(rows) for name, rows in parts.items()}
    return {name: rows for name, rows in by_name.items() if len(rows)}


def _view(
    node_key: str, name: str, rows: Rows, grid: Grid, unreadable: tuple[str, ...]
) -> SeriesView:
    minimum, mean, maximum = spread(rows, grid, 0, grid.count)
    shown, unit = shown_name(name)
    starts = np.arange(grid.count) * (grid.width_ms / 1000)
    return SeriesView(node_key, shown, unit, starts, minimum, mean, maximum, unreadable)
