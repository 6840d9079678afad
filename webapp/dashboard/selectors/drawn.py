"""The lines of a run's charts: only those that are drawn are read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.conf import settings

from advisor.store.chart_plan import buckets_of
from advisor.store.opening import open_store
from advisor.store.reading import Reader
from advisor.store.series import SeriesView, shown_name, views_of
from advisor.store.step_series import NAMES, step_views_of
from webapp.dashboard.selectors.charts import MOST_LINES, Chart, charts
from webapp.runs.history import chart_history, nodes_of
from webapp.runs.models import Node, Run
from webapp.runs.views.series import Window, plain

DIGITS = 5
"""More can't be seen, neither in a line nor beside it."""
Drawn = dict[tuple[str, str], SeriesView]
"""By the key of the node and the displayed name of the series."""


def drawn_charts(run: Run, window: Window) -> dict[str, Any]:
    """What the browser draws, by chart; `hidden`: how many lines of a chart it doesn't.

    Raises TooLargeError.
    """
    nodes, times = nodes_of(run), window.times(run)
    drawn = charts(nodes)
    views = _read(drawn, nodes, times, window.buckets) if times else {}
    return {
        "from": window.start_seconds,
        "to": window.end_seconds,
        "charts": {c.key: _chart(c, nodes, views, window.start_seconds) for c in drawn},
    }


def _read(
    drawn: Sequence[Chart], nodes: Sequence[Node], times: tuple[datetime, datetime], most: int
) -> Drawn:
    names: dict[Node, list[str]] = defaultdict(list)
    for chart in drawn:
        for line, node in chart.possible(nodes)[:MOST_LINES]:
            names[node].append(line.name)
    store = open_store(settings.OBJECTS_URL)
    buckets = buckets_of(*times, most, is_aligned=True)
    views: list[SeriesView] = []
    for node, own in names.items():
        history = chart_history(node, buckets)
        reader = Reader(store, history, for_charts=True)
        sampled = [name for name in own if name not in NAMES]
        views += views_of(reader, history, sampled, times[0], buckets)
        views += step_views_of(reader, history, own, times, buckets)
    return {(view.node_key, view.series): view for view in views}


def _chart(
    chart: Chart, nodes: Sequence[Node], views: Drawn, offset_seconds: float
) -> dict[str, Any]:
    possible = chart.possible(nodes)
    chosen = [
        (line.label, views.get((node.key, shown_name(line.name)[0])))
        for line, node in possible[:MOST_LINES]
    ]
    lines = [_line(label, view, offset_seconds) for label, view in chosen if view is not None]
    return {"lines": lines, "hidden": max(len(possible) - MOST_LINES, 0) if lines else 0}


def _line(label: str, view: SeriesView, offset_seconds: float) -> dict[str, Any]:
    return {
        "node": view.node_key,
        "label": label,
        "start": float(view.t_seconds[0] + offset_seconds),
        "step": view.width_seconds,
        "min": plain(view.minimum, DIGITS),
        "mean": plain(view.mean, DIGITS),
        "max": plain(view.maximum, DIGITS),
    }
