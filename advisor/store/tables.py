"""Steps and events as tables in time order. Each row names its segment."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

STEP_SCHEMA = pa.schema(
    {
        "start_us": pa.int64(),  # Unix microseconds
        "session": pa.string(),
        "seq": pa.int64(),
        "rank": pa.int64(),
        "phase": pa.string(),
        "count": pa.int64(),
        # Sums over `count` steps; null wait or samples: not measured.
        "duration_us": pa.int64(),
        "data_wait_us": pa.int64(),
        "samples": pa.int64(),
        # For summarised steps; null for single ones.
        "duration_min_us": pa.int64(),
        "duration_max_us": pa.int64(),
        "histogram": pa.map_(pa.int32(), pa.int64()),
        "slowest_us": pa.list_(pa.int64()),
        "tokens": pa.int64(),  # Sum; null: not counted, or stored before they were
    }
)
EVENT_SCHEMA = pa.schema(
    {
        "time_ms": pa.int64(),  # Unix milliseconds
        "session": pa.string(),
        "seq": pa.int64(),
        "kind": pa.string(),
        "data": pa.string(),  # JSON
    }
)
_STEP_ORDER = ("start_us", "session", "seq", "rank", "phase")
_EVENT_ORDER = ("time_ms", "session", "seq")


def table_from_rows(parts: Iterable[list[tuple[Any, ...]]], schema: pa.Schema) -> pa.Table:
    rows = list(chain.from_iterable(parts))
    columns: list[Any] = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema)


def merge_tables(
    parts: Iterable[pa.Table], schema: pa.Schema, columns: Collection[str] | None = None
) -> pa.Table:
    """Merge tables of different segments. Rows of one segment with the same time keep their
    order.

    Args:
        columns: those to keep, the order's first among them; None: all. With fewer, rows with the
            same time are in no particular order.
    """
    order: tuple[str, ...] = _STEP_ORDER if schema is STEP_SCHEMA else _EVENT_ORDER
    if columns is not None:
        schema = pa.schema([field for field in schema if field.name in columns])
        order = tuple(name for name in order if name in columns)
    joined = pa.concat_tables([schema.empty_table(), *(_of_schema(part, schema) for part in parts)])
    if (np.diff(joined[order[0]].to_numpy()) > 0).all():
        return joined
    places = pa.array(np.arange(len(joined)), pa.int64())
    keys = [(name, "ascending") for name in (*order, "place")]
    ordered = joined.append_column("place", places).sort_by(keys)
    return ordered.drop_columns(["place"])


def _of_schema(part: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the part's columns as the schema has them; tokens are null where an earlier version
    stored it.
    """
    if "tokens" in schema.names and "tokens" not in part.column_names:
        part = part.append_column("tokens", pa.nulls(len(part), pa.int64()))
    return part.select(schema.names).cast(schema)
