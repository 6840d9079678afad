"""What is known of a node in a span of time, as tables; and its roll-up into tiers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

STEP_FIELDS = {
    "start_us": "int64",
    "rank": "int64",
    "phase": "str",
    "duration_us": "int64",
    "data_wait_us": "float64",
    "samples": "float64",
    "count": "int64",
}
EVENT_FIELDS = {"time_ms": "int64", "kind": "str", "data": "str"}
STATISTICS = ("min", "mean", "max", "count")
COUNTER_SUFFIX = "_total"


@dataclass(frozen=True)
class NodeData:
    """One node's tables, in time order.

    Attributes:
        samples: index `time_ms` (int64, Unix milliseconds, unique), a float64 column a series, NaN
            where nothing is known. Integers are exact below 2^53.
        rollups: by tier in seconds; index `time_ms` (start of the cell), columns
            `name:min`, `name:mean`, `name:max`, `name:count`.
        steps: `STEP_FIELDS`; `start_us` in Unix microseconds. A row with count > 1 holds
            the means of so many steps. NaN data wait or samples: not measured.
        events: `EVENT_FIELDS`; `data` is JSON.
    """

    samples: pd.DataFrame
    rollups: dict[int, pd.DataFrame]
    steps: pd.DataFrame
    events: pd.DataFrame


def no_samples() -> pd.DataFrame:
    return pd.DataFrame(index=pd.Index([], dtype="int64", name="time_ms"))


def no_rows(fields: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(dtype=kind) for name, kind in fields.items()})


def is_counter(series: str) -> bool:
    return series.endswith(COUNTER_SUFFIX)


def merged_samples(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """One table of many; a series sampled twice in one millisecond counts once."""
    tables = [part for part in parts if len(part)]
    if not tables:
        return no_samples()
    joined = pd.concat(tables).sort_index(kind="stable")
    if joined.index.has_duplicates:
        joined = joined.groupby(level=0, sort=True).first()
    joined.index.name = "time_ms"
    return joined[sorted(joined.columns)]


def merged_rows(parts: Iterable[pd.DataFrame], fields: dict[str, str]) -> pd.DataFrame:
    """Steps or events of many parts in time order."""
    tables = [part for part in parts if len(part)]
    if not tables:
        return no_rows(fields)
    order = list(fields)
    joined = pd.concat(tables, ignore_index=True)[order]
    return joined.sort_values(order, kind="stable", ignore_index=True)


def rolled_up(samples: pd.DataFrame, tier_seconds: int) -> pd.DataFrame:
    """Raw samples as min, mean, max and count of each cell of `tier_seconds`."""
    if not len(samples):
        return no_samples()
    cells = _cells(samples.index, tier_seconds)
    grouped = samples.groupby(cells)
    parts = [_renamed(grouped.agg(statistic), statistic) for statistic in STATISTICS]
    table = pd.concat(parts, axis=1)
    table.index.name = "time_ms"
    return table[sorted(table.columns)]


def merged_rollups(parts: Iterable[pd.DataFrame], tier_seconds: int) -> pd.DataFrame:
    """Roll-ups of many parts, or of finer cells, as one: counts weigh the means."""
    tables = [part for part in parts if len(part)]
    if not tables:
        return no_samples()
    joined = pd.concat(tables)
    cells = _cells(joined.index, tier_seconds)
    series = sorted({name.rsplit(":", 1)[0] for name in joined.columns})
    columns = {}
    for name in series:
        count = joined[f"{name}:count"].groupby(cells).sum(min_count=1)
        weighted = (joined[f"{name}:mean"] * joined[f"{name}:count"]).groupby(cells)
        columns[f"{name}:min"] = joined[f"{name}:min"].groupby(cells).min()
        columns[f"{name}:mean"] = weighted.sum(min_count=1) / count
        columns[f"{name}:max"] = joined[f"{name}:max"].groupby(cells).max()
        columns[f"{name}:count"] = count
    table = pd.DataFrame(columns)
    table.index.name = "time_ms"
    return table[sorted(table.columns)]


def _renamed(table: pd.DataFrame, statistic: str) -> pd.DataFrame:
    return table.add_suffix(f":{statistic}")


def _cells(times_ms: pd.Index, tier_seconds: int) -> np.ndarray:
    """The start of each time's cell, counted from the Unix epoch, so that parts align."""
    width_ms = tier_seconds * 1000
    cells: np.ndarray = np.asarray(times_ms, dtype="int64") // width_ms * width_ms
    return cells
