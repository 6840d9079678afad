"""Tables to Parquet and back: open files, small, with whole numbers kept whole."""

from __future__ import annotations

import io
from collections.abc import Collection

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

_LARGEST_EXACT = 2.0**53


def encode(table: pd.DataFrame) -> bytes:
    """Parquet bytes; equal tables give equal bytes. The index travels as its named column."""
    columns = table.reset_index() if table.index.name else table
    arrow = pa.table({name: _array(columns[name]) for name in columns.columns})
    target = io.BytesIO()
    pq.write_table(
        arrow,
        target,
        compression="zstd",
        compression_level=9,
        use_dictionary=[n for n in arrow.column_names if not _is_rising(arrow[n])],
        column_encoding={
            n: "DELTA_BINARY_PACKED" for n in arrow.column_names if _is_rising(arrow[n])
        },
        write_statistics=False,
        store_schema=False,
    )
    return target.getvalue()


def decode(body: bytes, columns: Collection[str] | None = None) -> pd.DataFrame:
    """The table, or those of `columns` that it has; only these are read."""
    source = pq.ParquetFile(io.BytesIO(body))
    has = source.schema_arrow.names
    wanted = has if columns is None else [name for name in has if name in columns]
    table: pd.DataFrame = source.read(columns=wanted).to_pandas()
    return table.set_index("time_ms") if "time_ms" in wanted and "kind" not in has else table


def names(body: bytes) -> list[str]:
    """The columns of a chunk, without reading them."""
    return list(pq.ParquetFile(io.BytesIO(body)).schema_arrow.names)


def _array(column: pd.Series) -> pa.Array:
    """Whole floats become int64 (they pack), the rest stays; NaN becomes null."""
    if column.dtype != np.float64:
        return pa.array(column, from_pandas=True)
    known = column.to_numpy()[~np.isnan(column.to_numpy())]
    whole = bool(np.all(np.mod(known, 1) == 0)) and bool(np.all(np.abs(known) < _LARGEST_EXACT))
    return pa.array(column, type=pa.int64() if whole else pa.float64(), from_pandas=True)


def _is_rising(column: pa.ChunkedArray) -> bool:
    """Counters and times: a dictionary would be larger than their differences."""
    if column.type != pa.int64() or not len(column):
        return False
    return len(column.unique()) > len(column) // 2
