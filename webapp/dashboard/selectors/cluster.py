"""Every node of a run on many: how busy it was and how long its ranks needed, some at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.conf import settings

from advisor.store.chart_plan import Buckets, buckets_of
from advisor.store.index import NodeHistory
from advisor.store.opening import open_store
from advisor.store.reading import NodeReader
from advisor.store.series import SeriesView, views_of
from advisor.store.step_series import cells_between
from advisor.store.step_spread import spreads_of
from webapp.dashboard.selectors.charts import MOST_GPUS
from webapp.dashboard.selectors.drawn import LEAST_SECONDS, STEP_COLUMNS
from webapp.dashboard.selectors.heat import heat_row
from webapp.dashboard.selectors.lines import Member
from webapp.dashboard.selectors.step_table import rank_document, sort_spreads
from webapp.runs.history import chart_histories, nodes_of
from webapp.runs.models import Node, Run
from webapp.runs.views.series import SeriesWindow

NODES_AT_ONCE = 8
"""The nodes of one answer, which takes no longer than the charts of a page."""
CPU_BUSY = "host.cpu_busy_pct"


def drawn_nodes(run: Run, window: SeriesWindow, first: int) -> dict[str, Any]:
    """Return `{next, heat, ranks}` of some nodes: a row for each GPU, or for the cores of a node
    without GPUs, and the step times of each rank. `next` is where the next answer begins; None: all
    have been read.

    Raises TooLargeError.

    Args:
        first: the place of the first node to read.
    """
    nodes, times = nodes_of(run), window.times(run)
    part, after = nodes[first : first + NODES_AT_ONCE], first + NODES_AT_ONCE
    rows: list[dict[str, Any]] = []
    ranks: list[dict[str, Any]] = []
    found: dict[str, Any] = {"next": after if after < len(nodes) else None, "ranks": ranks}
    if times is None:
        return found | {"heat": None}
    buckets, store = (
        buckets_of(*times, window.buckets, LEAST_SECONDS, is_aligned=True),
        open_store(settings.OBJECTS_URL),
    )
    for node, history in zip(part, chart_histories(part, buckets), strict=True):
        reader = NodeReader(store, history, for_charts=True)
        views = views_of(reader, history, _names(node), times[0], buckets)
        rows += [heat_row(member) for member in _members(views)]
        ranks += _ranks(reader, history, buckets)
    start = float(buckets.starts_seconds(times[0])[0]) + window.start_seconds
    return found | {"heat": {"start": start, "step": buckets.width_seconds, "rows": rows}}


def _names(node: Node) -> list[str]:
    gpus = range(min(len(node.gpus), MOST_GPUS))
    return [f"gpu{number}.busy_pct" for number in gpus] or [CPU_BUSY]


def _members(views: list[SeriesView]) -> Iterator[Member]:
    for view in views:
        gpu = view.series.partition(".")[0].removeprefix("gpu")
        yield Member("node", "All cores" if view.series == CPU_BUSY else f"GPU {gpu}", view)


def _ranks(reader: NodeReader, history: NodeHistory, buckets: Buckets) -> list[dict[str, Any]]:
    cells = cells_between(reader, history, buckets, STEP_COLUMNS)
    spreads = list(spreads_of(history.key, cells)) if len(cells) else []
    return [rank_document(spread) for spread in sort_spreads(spreads)]
