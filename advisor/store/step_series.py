"""Training steps as series, so that charts can draw them on the same time axis."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from advisor.store import tables
from advisor.store.chart_plan import Buckets, buckets_of, plan
from advisor.store.index import HOUR_MS, STEP_TIER_SECONDS, NodeHistory, from_ms
from advisor.store.objects import ObjectStore
from advisor.store.reading import NodeReader
from advisor.store.series import SeriesView
from advisor.store.step_tiers import DRAWN, STEP_COLUMNS, TIER_SCHEMA, cells_of, single_cells

STEP, DATA_WAIT = "step.duration_seconds", "step.data_wait_seconds"
NAMES = (STEP, DATA_WAIT)
SINGLE_COLUMNS = ("start_us", "rank", "phase", "count", "duration_us", "data_wait_us")
_COLUMNS = {STEP: ("duration", "count"), DATA_WAIT: ("data_wait", "wait_count")}
_US = 1e6
SUMMED_SECONDS = 1.0
"""The time of which agents send sums, where steps are too many to send singly."""


def read_steps(
    store: ObjectStore,
    nodes: Sequence[NodeHistory],
    names: Sequence[str],
    start: datetime,
    end: datetime,
    buckets: int,
    *,
    is_aligned: bool = False,
) -> list[SeriesView]:
    """Return the training steps that began between `start` and `end`; all ranks of a node together.

    Wide buckets read tiers of steps, as those of samples do.

    Args:
        is_aligned: see `buckets_of`.
    """
    asked = buckets_of(start, end, buckets, is_aligned=is_aligned)
    views = (
        step_views_of(NodeReader(store, node, for_charts=True), node, names, (start, end), asked)
        for node in nodes
    )
    return [view for of_node in views for view in of_node]


def step_views_of(
    reader: NodeReader,
    node: NodeHistory,
    names: Sequence[str],
    times: tuple[datetime, datetime],
    buckets: Buckets,
) -> list[SeriesView]:
    """Return the requested series of the node's training steps between two times."""
    if not any(name in NAMES for name in names):
        return []
    cells = cells_between(reader, node, buckets, DRAWN)
    return views_of_cells(node.key, cells, names, times, buckets, tuple(reader.unreadable))


def views_of_cells(
    node_key: str,
    cells: pa.Table,
    names: Sequence[str],
    times: tuple[datetime, datetime],
    buckets: Buckets,
    unreadable: tuple[str, ...] = (),
) -> list[SeriesView]:
    """Return the series of `step_views_of` from cells that were read before."""
    wanted = [name for name in NAMES if name in names]
    cells = _training(cells)
    if not len(cells):
        return []
    # A bucket shorter than the steps, or than a second that is known as sums, would be empty and
    # look like a gap.
    longest = pc.max(cells["duration_max_us"]).as_py() / _US
    summed = SUMMED_SECONDS if pc.max(cells["count"]).as_py() > 1 else 0.0
    drawn = buckets.no_shorter_than(2 * max(longest, summed), times)
    views = (_view(node_key, name, cells, drawn, times[0], unreadable) for name in wanted)
    return [view for view in views if view is not None]


def cells_between(
    reader: NodeReader, node: NodeHistory, buckets: Buckets, columns: Sequence[str]
) -> pa.Table:
    """Return the steps of all phases in the buckets, as a tier that is no coarser than theirs."""
    low, high = from_ms(buckets.start_ms), from_ms(buckets.end_ms - 1)
    chosen = plan(node, "chart_steps", reader.hours(low, high), buckets)
    parts = [pa.schema([TIER_SCHEMA.field(name) for name in columns]).empty_table()]
    for ref, hours in chosen.chunks:
        cells = reader.chart_steps(ref)
        if cells is not None:
            hour = cells["cell_ms"].to_numpy() // HOUR_MS * HOUR_MS
            cells = cells.filter(pa.array(np.isin(hour, sorted(hours))))
            parts.append(_within(cells, buckets, ref.tier_seconds))
    for hour_ms in chosen.hours:
        tier = STEP_TIER_SECONDS if buckets.tier_seconds >= STEP_TIER_SECONDS else 0
        cells = reader.step_tier(hour_ms) if tier else None
        if cells is None:
            cells = _of_raw(reader, hour_ms, tier, columns)
        parts.append(_within(cells, buckets, tier))
    return pa.concat_tables(part.select(columns) for part in parts).combine_chunks()


def single_steps_between(
    reader: NodeReader, node: NodeHistory, buckets: Buckets
) -> pa.Table | None:
    """Return the steps that began in the buckets, as `SINGLE_COLUMNS`; None if some are known as
    sums only or the history has chunks of many hours instead.
    """
    low, high = from_ms(buckets.start_ms), from_ms(buckets.end_ms - 1)
    chosen = plan(node, "chart_steps", reader.hours(low, high), buckets)
    if chosen.chunks or not chosen.hours:
        return None
    parts = [reader.steps(hour, SINGLE_COLUMNS)[0].select(SINGLE_COLUMNS) for hour in chosen.hours]
    steps = pa.concat_tables(parts)
    if pc.max(steps["count"]).as_py() != 1:
        return None
    start_us = steps["start_us"].to_numpy()
    inside = (start_us >= buckets.start_ms * 1000) & (start_us < buckets.end_ms * 1000)
    return steps if inside.all() else steps.filter(pa.array(inside))


def last_steps(reader: NodeReader, times: tuple[datetime, datetime], most: int = 30) -> pa.Table:
    """Return the last training steps of the lowest rank that is known singly, as `SINGLE_COLUMNS`,
    in order; of the last hour that has any.

    Args:
        reader: reads the hours' own chunks.
    """
    for hour in reversed(reader.hours(*times)):
        steps = reader.steps(hour, SINGLE_COLUMNS)[0].select(SINGLE_COLUMNS)
        is_single = pc.and_(pc.equal(steps["phase"], "train"), pc.equal(steps["count"], 1))
        single = steps.filter(is_single)
        if len(single):
            own = single.filter(pc.equal(single["rank"], pc.min(single["rank"])))
            return own.sort_by("start_us").slice(max(len(own) - most, 0))
    return tables.STEP_SCHEMA.empty_table().select(SINGLE_COLUMNS)


def _within(cells: pa.Table, buckets: Buckets, tier_seconds: int) -> pa.Table:
    at_ms = cells["cell_ms"].to_numpy()
    ends_ms = at_ms + max(tier_seconds * 1000, 1)
    return cells.filter(pa.array((ends_ms > buckets.start_ms) & (at_ms < buckets.end_ms)))


def _of_raw(reader: NodeReader, hour_ms: int, tier: int, columns: Sequence[str]) -> pa.Table:
    is_drawn = set(columns) <= set(DRAWN)
    steps, _ = reader.steps(hour_ms, STEP_COLUMNS if is_drawn else None)
    return cells_of(steps, tier) if tier else single_cells(steps)


def _training(cells: pa.Table) -> pa.Table:
    return cells.filter(pc.equal(cells["phase"], "train"))


def _view(
    node_key: str,
    name: str,
    cells: pa.Table,
    buckets: Buckets,
    start: datetime,
    unreadable: tuple[str, ...],
) -> SeriesView | None:
    prefix, counted = _COLUMNS[name]
    known = cells.filter(pc.greater(cells[counted], 0))
    if not len(known):
        return None
    grid, size = buckets.grid, buckets.grid.count
    place = ((known["cell_ms"].to_numpy() - grid.start_ms) // grid.width_ms).astype(np.int64)
    place = np.clip(place, 0, size - 1)
    count = np.bincount(place, known[counted].to_numpy(), size).astype(np.int64)
    total = np.bincount(place, known[f"{prefix}_us"].to_numpy(), size)
    least, most = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(least, place, known[f"{prefix}_min_us"].to_numpy())
    np.maximum.at(most, place, known[f"{prefix}_max_us"].to_numpy())
    is_known = count > 0
    return SeriesView(
        node_key=node_key,
        series=name,
        unit="seconds",
        width_seconds=buckets.width_seconds,
        t_seconds=buckets.starts_seconds(start),
        minimum=np.where(is_known, least, np.nan) / _US,
        mean=np.where(is_known, total, np.nan) / np.where(is_known, count, 1) / _US,
        maximum=np.where(is_known, most, np.nan) / _US,
        count=count,
        unreadable=unreadable,
    )
