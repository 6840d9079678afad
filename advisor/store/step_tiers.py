"""Tiers of training steps: what the steps of each rank and phase took, by cells of equal width.

A step counts in the cell in which it began. Cells count from the Unix epoch, so hours and coarser
tiers align, and a tier made of a tier is the one made of the steps themselves.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.store.ticks import from_arrow

TIER_SCHEMA = pa.schema(
    {
        "cell_ms": pa.int64(),  # Unix milliseconds of the cell's start
        "rank": pa.int64(),
        "phase": pa.string(),
        "count": pa.int64(),  # Steps
        "duration_us": pa.int64(),  # Sum
        "duration_min_us": pa.int64(),
        "duration_max_us": pa.int64(),
        "wait_count": pa.int64(),  # Steps whose data wait is known
        "data_wait_us": pa.int64(),  # Their sum
        "data_wait_min_us": pa.int64(),  # null: of none
        "data_wait_max_us": pa.int64(),
        "samples": pa.int64(),  # Sum; null: not counted
        "histogram": pa.map_(pa.int32(), pa.int64()),  # floor(4 * log2(duration in us)) -> count
    }
)
DRAWN = [name for name in TIER_SCHEMA.names if name not in ("samples", "histogram")]
"""The columns that charts need."""
STEP_COLUMNS = (
    "start_us",
    "rank",
    "phase",
    "count",
    "duration_us",
    "data_wait_us",
    "duration_min_us",
    "duration_max_us",
)
"""The columns of raw steps that `cells_of` needs without samples and histograms."""
BINS_PER_OCTAVE = 4
_NO_TIME = np.iinfo(np.int64).max


def cells_of(steps: pa.Table, tier_seconds: int) -> pa.Table:
    """Return raw steps (`tables.STEP_SCHEMA`) as a tier; without samples and histograms if `steps`
    has no such columns.

    Of summarised steps the shortest and longest are known, but only the mean of their data wait.
    """
    return coarsen_tier(single_cells(steps), tier_seconds)


def coarsen_tier(cells: pa.Table, tier_seconds: int) -> pa.Table:
    """Return a tier of wider cells, rows in order of cell, rank and phase."""
    width_ms = tier_seconds * 1000
    if not len(cells):
        return cells
    phase = cells["phase"].combine_chunks().dictionary_encode()
    codes = pc.fill_null(phase.indices, len(phase.dictionary)).to_numpy(zero_copy_only=False)
    names = np.array([*phase.dictionary.to_pylist(), None], dtype=object)
    rank_of = np.argsort(np.argsort([name or "" for name in names], kind="stable"), kind="stable")
    cell = cells["cell_ms"].to_numpy() // width_ms * width_ms
    keys = (rank_of[codes], cells["rank"].to_numpy(), cell)
    order = np.lexsort(keys)
    ordered = [key[order] for key in keys]
    changes = np.logical_or.reduce([np.diff(key, prepend=key[:1] - 1) != 0 for key in ordered])
    first = np.flatnonzero(changes)
    columns = {
        "cell_ms": pa.array(ordered[2][first]),
        "rank": pa.array(ordered[1][first]),
        "phase": pa.array(names[codes[order][first]], pa.string()),
    }
    for name, join in _JOINS.items():
        if name in cells.column_names:
            columns[name] = _joined(cells[name], order, first, join)
    if "histogram" in cells.column_names:
        group = np.empty(len(order), dtype=np.int64)
        group[order] = np.cumsum(changes) - 1
        columns["histogram"] = _histograms(cells["histogram"], group, len(first))
    return pa.table([columns[n] for n in TIER_SCHEMA.names if n in columns], _schema(columns))


_JOINS: dict[str, np.ufunc] = {
    "count": np.add,
    "duration_us": np.add,
    "duration_min_us": np.minimum,
    "duration_max_us": np.maximum,
    "wait_count": np.add,
    "data_wait_us": np.add,
    "data_wait_min_us": np.minimum,
    "data_wait_max_us": np.maximum,
    "samples": np.add,
}


def _joined(
    column: pa.ChunkedArray, order: np.ndarray, first: np.ndarray, join: np.ufunc
) -> pa.Array:
    """Join the values of each cell; null where all are."""
    values, known = from_arrow(column.combine_chunks())
    nothing = _NO_TIME if join is np.minimum else 0
    filled = np.where(known, values, nothing)[order]
    is_known = np.logical_or.reduceat(known[order], first)
    return pa.array(join.reduceat(filled, first), mask=~is_known)


def single_cells(steps: pa.Table) -> pa.Table:
    """Return each row of raw steps as a row of a tier whose cell is the millisecond of its
    start.
    """
    count = steps["count"].to_numpy()
    total = steps["duration_us"].to_numpy()
    wait, waited = from_arrow(steps["data_wait_us"].combine_chunks())
    mean = total // np.maximum(count, 1)
    mean_wait = wait // np.maximum(count, 1)
    columns = {
        "cell_ms": pa.array(steps["start_us"].to_numpy() // 1000),
        "rank": steps["rank"],
        "phase": steps["phase"],
        "count": pa.array(count),
        "duration_us": pa.array(total),
        "duration_min_us": pa.array(_known_or(steps["duration_min_us"], mean)),
        "duration_max_us": pa.array(_known_or(steps["duration_max_us"], mean)),
        "wait_count": pa.array(np.where(waited, count, 0)),
        "data_wait_us": pa.array(np.where(waited, wait, 0)),
        "data_wait_min_us": pa.array(mean_wait, mask=~waited),
        "data_wait_max_us": pa.array(mean_wait, mask=~waited),
    }
    if "histogram" in steps.column_names:
        columns |= {"samples": steps["samples"], "histogram": _all_histograms(steps, mean)}
    return pa.table([columns[n] for n in TIER_SCHEMA.names if n in columns], _schema(columns))


def _schema(columns: dict[str, object]) -> pa.Schema:
    return pa.schema([field for field in TIER_SCHEMA if field.name in columns])


def _known_or(column: pa.ChunkedArray, other: np.ndarray) -> np.ndarray:
    values, known = from_arrow(column.combine_chunks())
    return np.where(known, values, other)


# Histograms


def histogram_entries(cells: pa.Table) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the row, bin and count of each entry of the histograms of a tier."""
    return _entries(cells["histogram"].combine_chunks())


def _all_histograms(steps: pa.Table, mean_us: np.ndarray) -> pa.Array:
    """Return the histograms that summaries have; a single step's has one bin."""
    bins = np.floor(BINS_PER_OCTAVE * np.log2(np.maximum(mean_us, 1))).astype(np.int32)
    sent = steps["histogram"].combine_chunks()
    own, keys, counts = _entries(sent)
    is_single = np.ones(len(steps), dtype=bool)
    is_single[own] = False
    single = np.flatnonzero(is_single)
    rows = np.concatenate([own, single])
    return _packed(
        rows,
        np.concatenate([keys, bins[single]]),
        np.concatenate([counts, steps["count"].to_numpy()[single]]),
        len(steps),
    )


def _histograms(column: pa.ChunkedArray, group: np.ndarray, size: int) -> pa.Array:
    rows, keys, counts = _entries(column.combine_chunks())
    return _packed(group[rows], keys, counts, size)


def _entries(column: pa.MapArray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the row, bin and count of each entry."""
    offsets = column.offsets.to_numpy()
    part = slice(offsets[0], offsets[-1])
    rows = np.repeat(np.arange(len(column)), np.diff(offsets))
    return rows, column.keys.to_numpy()[part], column.items.to_numpy()[part]


def _packed(rows: np.ndarray, bins: np.ndarray, counts: np.ndarray, size: int) -> pa.Array:
    """Return the histograms of rows [0, size); equal bins of one row are added up."""
    order = np.lexsort((bins, rows))
    rows, bins, counts = rows[order], bins[order], counts[order]
    is_new = np.diff(rows, prepend=-1) != 0
    is_new |= np.diff(bins.astype(np.int64), prepend=_NO_TIME) != 0
    first = np.flatnonzero(is_new)
    if len(first):
        rows, bins, counts = rows[first], bins[first], np.add.reduceat(counts, first)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=size))])
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()), pa.array(bins, pa.int32()), pa.array(counts, pa.int64())
    )
