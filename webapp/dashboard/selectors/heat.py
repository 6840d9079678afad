"""Heat maps: how busy each GPU and each core was, a row each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from django.conf import settings

from advisor.store.chart_plan import buckets_of
from advisor.store.opening import open_store
from advisor.store.reading import NodeReader
from advisor.store.series import SeriesView, views_of
from webapp.dashboard.selectors.lines import Member
from webapp.runs.history import chart_histories
from webapp.runs.models import Node, Run
from webapp.runs.views.series import SeriesWindow

MOST_CORES = 384
"""The most rows of the heat map of cores."""


def drawn_cores(run: Run, nodes: Sequence[Node], window: SeriesWindow) -> dict[str, Any]:
    """Return the heat map of the cores of these nodes. Raises TooLargeError."""
    times = window.times(run)
    if times is None:
        return {"heat": None}
    buckets = buckets_of(*times, window.buckets, is_aligned=True)
    store, members, left = open_store(settings.OBJECTS_URL), [], MOST_CORES
    for node, history in zip(nodes, chart_histories(nodes, buckets), strict=True):
        names = core_names(node, left)
        left -= len(names)
        reader = NodeReader(store, history, for_charts=True)
        views = views_of(reader, history, names, times[0], buckets) if names else []
        members += core_members(views)
    return {"heat": heat_of([members], window.start_seconds)}


def core_names(node: Node, most: int) -> list[str]:
    return [f"cpu{number}.busy_pct" for number in range(min(node.vcpus or 0, most))]


def core_members(views: Iterable[SeriesView]) -> list[Member]:
    return [
        Member("core", view.series.partition(".")[0].removeprefix("cpu"), view) for view in views
    ]


def heat_of(of_charts: Sequence[Sequence[Member]], offset_seconds: float) -> dict[str, Any] | None:
    """Return a row for each member, whole percent; None if there are fewer than two, which a line
    shows as well.
    """
    members = [member for members in of_charts for member in members]
    if len(members) < 2:
        return None
    first = members[0].view
    ordered = sorted(members, key=lambda m: (m.view.node_key, int(m.label.split()[-1])))
    return {
        "start": float(first.t_seconds[0] + offset_seconds),
        "step": first.width_seconds,
        "rows": [heat_row(member) for member in ordered],
    }


def heat_row(member: Member) -> dict[str, Any]:
    """Return the row of one series, in whole percent; None if unknown."""
    values = percent_values(member.view.mean)
    return {"node": member.view.node_key, "label": member.label, "values": values}


def percent_values(values: np.ndarray) -> list[int | None]:
    known = np.isfinite(values)
    rounded = np.rint(np.where(known, values, 0.0)).astype(int).astype(object)
    rounded[~known] = None
    return list(rounded.tolist())
