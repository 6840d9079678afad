"""Reads what the charts of a run's page draw, and nothing else, in one go."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from django.conf import settings

from advisor.store.chart_plan import Buckets, buckets_of
from advisor.store.index import TIERS_SECONDS, NodeHistory
from advisor.store.opening import open_store
from advisor.store.reading import NodeReader
from advisor.store.series import SeriesView, shown_name, views_of
from advisor.store.step_series import (
    NAMES,
    cells_between,
    last_steps,
    single_steps_between,
    views_of_cells,
)
from advisor.store.step_spread import (
    COLUMNS,
    StepSpread,
    phase_lengths,
    spreads_of,
    spreads_of_single,
    trained_steps,
)
from advisor.store.step_tiers import DRAWN
from webapp.dashboard.selectors.charts import (
    IO_WAIT,
    MOST_GPUS,
    MOST_NODES,
    Chart,
    charted_nodes,
    charts,
)
from webapp.dashboard.selectors.heat import MOST_CORES, core_members, core_names, heat_of
from webapp.dashboard.selectors.judgements import fired_lines, nodes_named_by
from webapp.dashboard.selectors.lines import (
    Member,
    StyledLine,
    drawn_lines,
    merge_lines,
    share_buckets,
)
from webapp.dashboard.selectors.step_table import step_document
from webapp.runs.history import chart_histories, nodes_of, whole_history
from webapp.runs.models import Node, Run
from webapp.runs.views.series import SeriesWindow, round_values

DIGITS = 5
"""The digits of a value: more can't be seen, neither in a line nor beside it."""
MOST_SINGLE_STEPS = 50_000
"""The most steps of a run that have exact percentiles; those of more come from tiers."""
LEAST_SECONDS, SUMMED_AFTER_SECONDS = float(TIERS_SECONDS[0]), 600.0
"""The least width of a bucket where more than MOST_GPUS GPUs are drawn for longer than this:
summaries are read, no single samples. Shorter stretches, and pages of nodes, have them."""
STEP_COLUMNS = tuple(dict.fromkeys((*DRAWN, *COLUMNS)))


@dataclass
class Read:
    """Data of all nodes: views by the node's key and the displayed name; steps; phases by
    bucket.
    """

    views: dict[tuple[str, str], SeriesView] = field(default_factory=dict)
    steps: list[StepSpread] = field(default_factory=list)
    phases: dict[str, np.ndarray] = field(default_factory=dict)
    done: np.ndarray | None = None
    """The training steps of one rank by bucket."""
    starts_seconds: np.ndarray = field(default_factory=lambda: np.empty(0))
    width_seconds: float = 0.0
    cores: list[Member] = field(default_factory=list)
    whole: dict[str, NodeHistory] = field(default_factory=dict)
    """Everything that the hours of each node hold, by its key; for a report."""
    last_steps: pa.Table | None = None
    """The last training steps of the lowest rank, as `step_series.last_steps`; for a report."""
    unreadable: set[str] = field(default_factory=set)
    """The keys of objects that can't be read."""


def drawn_charts(run: Run, window: SeriesWindow) -> dict[str, Any]:
    """Return what the browser draws, by chart, of the nodes that charts read.

    Raises TooLargeError.
    """
    nodes, times = read_nodes(run, window.node), window.times(run)
    least = _least_seconds(nodes, window)
    return _document(nodes, read_charts(nodes, times, window.buckets, least_seconds=least), window)


def _least_seconds(nodes: Sequence[Node], window: SeriesWindow) -> float:
    """Return the least width of a bucket: of many GPUs for long, whole cells of summaries."""
    length = window.end_seconds - window.start_seconds
    if length < SUMMED_AFTER_SECONDS or sum(len(node.gpus) for node in nodes) <= MOST_GPUS:
        return 0.001
    return LEAST_SECONDS * math.ceil(length / window.buckets / LEAST_SECONDS)


def read_nodes(run: Run, number: int | None = None) -> list[Node]:
    """Return the nodes that charts read: of a run with many, those that findings name come first.

    Args:
        number: of the only node to read; None: of all.
    """
    nodes = nodes_of(run)
    if number is not None:
        return [node for node in nodes if node.number == number]
    if len(nodes) <= MOST_NODES:
        return nodes
    return charted_nodes(nodes, nodes_named_by(fired_lines(run), nodes))


def report_document(nodes: Sequence[Node], read: Read, window: SeriesWindow) -> dict[str, Any]:
    """Return the same as `drawn_charts`, of what was read for a report: also the heat map of the
    cores, `cores`, and the wait for I/O.
    """
    cores = {"cores": heat_of([read.cores], window.start_seconds)}
    return _document(nodes, read, window, (IO_WAIT,)) | cores


def _document(
    nodes: Sequence[Node], read: Read, window: SeriesWindow, more: Sequence[Chart] = ()
) -> dict[str, Any]:
    listed, offset = [*charts(nodes), *more], window.start_seconds
    return {
        "from": window.start_seconds,
        "to": window.end_seconds,
        "charts": {c.key: chart_document(c, nodes, read.views, offset) for c in listed},
        "heat": heat_of([_members(c, nodes, read.views) for c in listed if c.key == "gpu"], offset),
        "nodes": _multiples(listed, nodes, read, offset),
        "steps": step_document(read.steps),
        "phases": _phases(read, offset),
        "progress": _progress(read, offset),
    }


def read_charts(
    nodes: Sequence[Node],
    times: tuple[datetime, datetime] | None,
    most: int,
    *,
    for_report: bool = False,
    least_seconds: float = 0.001,
) -> Read:
    """Read what the charts of these few nodes draw, in at most so many buckets.

    Raises TooLargeError.

    Args:
        least_seconds: the least width of a bucket.
        for_report: with the cores, the wait for I/O, and single steps if there aren't too many.
    """
    store, read = open_store(settings.OBJECTS_URL), Read()
    listed = [*charts(nodes), *((IO_WAIT,) if for_report else ())]
    if times is None:
        return read
    buckets = buckets_of(*times, most, least_seconds, is_aligned=True)
    read.starts_seconds, read.width_seconds = (
        buckets.starts_seconds(times[0]),
        buckets.width_seconds,
    )
    for node, history in zip(nodes, chart_histories(nodes, buckets), strict=True):
        names = _names(node, [chart for chart in listed if not chart.instead_of])
        reader = NodeReader(store, history, for_charts=True)
        sampled = [name for name in names if name not in NAMES]
        views = views_of(reader, history, sampled, times[0], buckets)
        if others := _names(node, _replacing(listed, node, views)):
            views += views_of(reader, history, others, times[0], buckets)
        cells = cells_between(reader, history, buckets, STEP_COLUMNS)
        views += views_of_cells(node.key, cells, names, times, buckets)
        read.views |= {(view.node_key, view.series): view for view in views}
        whole, raw = history, reader
        if for_report:
            cores = core_names(node, MOST_CORES - len(read.cores))
            read.cores += core_members(views_of(reader, history, cores, times[0], buckets))
            whole = read.whole[node.key] = whole_history(node, history)
            raw = NodeReader(store, whole, for_charts=True)
        _add_steps(read, raw, whole, cells, buckets)
        if for_report and len(cells) and read.last_steps is None:
            read.last_steps = last_steps(raw, times)
        read.unreadable |= {*reader.unreadable, *raw.unreadable}
    return read


def _names(node: Node, listed: Iterable[Chart]) -> list[str]:
    return [line.name for chart in listed for line in chart.lines if line.is_of(node)]


def _replacing(listed: Sequence[Chart], node: Node, views: Iterable[SeriesView]) -> Iterator[Chart]:
    """Yield the charts for which no series of the node is drawn that they would replace."""
    found = {view.series for view in views}
    by_key = {chart.key: chart for chart in listed}
    for chart in listed:
        if chart.instead_of and found.isdisjoint(_names(node, [by_key[chart.instead_of]])):
            yield chart


def _add_steps(
    read: Read, reader: NodeReader, history: NodeHistory, cells: pa.Table, buckets: Buckets
) -> None:
    if not len(cells):
        return
    if read.done is None:
        read.done = trained_steps(cells, buckets)
    known = sum(each.count for each in read.steps) + pc.sum(cells["count"]).as_py()
    fits = known <= MOST_SINGLE_STEPS
    single = single_steps_between(reader, history, buckets) if fits else None
    # Some hours may have only summaries left.
    is_all = single is not None and len(single) == pc.sum(cells["count"]).as_py()
    of_cells = spreads_of(history.key, cells)
    read.steps += spreads_of_single(history.key, single) if is_all else of_cells
    for phase, seconds in phase_lengths(cells, buckets).items():
        read.phases[phase] = read.phases.get(phase, 0.0) + seconds


Views = Mapping[tuple[str, str], SeriesView]
"""Views by the node's key and the displayed name."""


def _members(chart: Chart, nodes: Sequence[Node], views: Views) -> list[Member]:
    found = []
    for line in chart.lines:
        family = line.family or ("GPU" if line.gpu is not None else line.label)
        for node in nodes:
            view = views.get((node.key, shown_name(line.name)[0]))
            if view is not None and line.is_of(node):
                found.append(Member(family, line.label, view))
    return found


def chart_document(
    chart: Chart, nodes: Sequence[Node], views: Views, offset_seconds: float
) -> dict[str, Any]:
    """Return `{lines}`: the chart as the browser draws it."""
    families: dict[str, list[Member]] = defaultdict(list)
    for member in _members(chart, nodes, views):
        families[member.family].append(member)
    drawn = [
        line
        for family in families.values()
        for line in drawn_lines(family, chart.unit, names_idle=not chart.is_event_time)
    ]
    return {"lines": [_line(line, offset_seconds) for line in drawn]}


def _multiples(
    listed: Sequence[Chart], nodes: Sequence[Node], read: Read, offset_seconds: float
) -> list[dict[str, Any]]:
    """Return, for each shown node, how busy it was, its GPUs together, from what was read for the
    charts; empty if there is one node only.
    """
    if len(nodes) < 2:
        return []
    chart = next((c for c in listed if c.key == "gpu"), None)
    chart = chart or next(c for c in listed if c.key == "cpu")
    found = []
    for node in nodes:
        members = _members(chart, [node], read.views)
        if members and share_buckets(members):
            view = replace(merge_lines(members, "", "plain").view, node_key=node.key)
            found.append(_line(StyledLine(chart.title, view), offset_seconds))
    return found


def _line(line: StyledLine, offset_seconds: float) -> dict[str, Any]:
    view = line.view
    return {
        "node": view.node_key,
        "label": line.label,
        "kind": line.kind,
        "start": float(view.t_seconds[0] + offset_seconds),
        "step": view.width_seconds,
        "min": round_values(view.minimum, DIGITS),
        "mean": round_values(view.mean, DIGITS),
        "max": round_values(view.maximum, DIGITS),
    }


def _phases(read: Read, offset_seconds: float) -> list[list[Any]]:
    """Return start, end and phase: in each bucket the phase that took most time; nothing without
    steps.
    """
    if not read.phases:
        return []
    names = sorted(read.phases)
    seconds = np.stack([read.phases[name] for name in names])
    most = np.where(seconds.max(axis=0) > 0, seconds.argmax(axis=0), -1)
    edges = [0, *(np.flatnonzero(np.diff(most)) + 1).tolist(), len(most)]
    found = []
    for low, high in pairwise(edges):
        if high > low and most[low] >= 0:
            start = float(read.starts_seconds[low]) + offset_seconds
            length = (high - low) * read.width_seconds
            found.append([round(start, 3), round(start + length, 3), names[most[low]]])
    return found


def _progress(read: Read, offset_seconds: float) -> list[list[float]]:
    """Return moments and the training steps that were done by then, since the start of what was
    read.
    """
    if read.done is None or not read.done.any():
        return []
    done = np.cumsum(read.done)
    ends = read.starts_seconds + read.width_seconds + offset_seconds
    first = float(read.starts_seconds[0]) + offset_seconds
    return [[first, 0], *([round(float(at), 3), int(n)] for at, n in zip(ends, done, strict=True))]
