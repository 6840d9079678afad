"""Tables of a run, as columns of equal length."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from django.conf import settings

from advisor.store import step_series
from advisor.store.chart_plan import buckets_of
from advisor.store.index import NodeHistory, to_ms, to_us
from advisor.store.opening import open_store
from advisor.store.reading import NodeReader
from advisor.store.series import SeriesView, list_series, read_series
from webapp.analysis.selectors.cost_lines import cost_lines
from webapp.analysis.selectors.findings import findings_of
from webapp.analysis.selectors.ledger import run_ledger
from webapp.api.amounts import money
from webapp.http.problems import Problem
from webapp.runs.history import chart_histories, node_histories, nodes_of
from webapp.runs.models import Run

Columns = dict[str, list[Any]]
MOST_CELLS = 2_000_000
"""The most cells of one answer. Longer tables come in parts: `from` and `to`."""


@dataclass(frozen=True)
class ExportRequest:
    """A request for a part of a run.

    Attributes:
        start_seconds, end_seconds: since the run's start.
        buckets: how many rows series have at most.
        names: of series; empty: all.
    """

    run: Run
    start_seconds: float
    end_seconds: float
    buckets: int
    names: tuple[str, ...]

    @property
    def times(self) -> tuple[datetime, datetime] | None:
        """Return the start and end of the part, or None if nothing is in it."""
        started_at = self.run.started_at
        if started_at is None or self.end_seconds <= self.start_seconds:
            return None
        spans = (timedelta(seconds=each) for each in (self.start_seconds, self.end_seconds))
        start, end = (started_at + span for span in spans)
        return start, end


def series(part: ExportRequest) -> Columns:
    """Return the means of all series in equal buckets: a row for each node and bucket that has
    any.
    """
    if part.times is None:
        return {"time": [], "seconds": [], "node": []}
    start, end = part.times
    buckets = buckets_of(start, end, part.buckets, is_aligned=False)
    nodes = chart_histories(nodes_of(part.run), buckets)
    names = part.names or _every_name(nodes)
    if len(names) * part.buckets * len(nodes) > MOST_CELLS:
        raise _too_large("Ask for fewer buckets, for a part of the run, or for some series.")
    store = open_store(settings.OBJECTS_URL)
    sampled = [name for name in names if name not in step_series.NAMES]
    views = read_series(store, nodes, sampled, start, end, part.buckets) if sampled else []
    views += step_series.read_steps(store, nodes, names, start, end, part.buckets)
    columns: Columns = {"time": [], "seconds": [], "node": []}
    columns |= {view.series: [] for view in views}
    for node in nodes:
        own = {view.series: _known(view) for view in views if view.node_key == node.key}
        rows = sorted({at for known in own.values() for at in known})
        columns["seconds"] += [at + part.start_seconds for at in rows]
        columns["time"] += [_time(part.run, at + part.start_seconds) for at in rows]
        columns["node"] += [node.key] * len(rows)
        for name in columns.keys() - {"time", "seconds", "node"}:
            columns[name] += [own.get(name, {}).get(at) for at in rows]
    return columns


def _known(view: SeriesView) -> dict[float, float]:
    """Return the means by seconds since the start of what was asked for; of steps the buckets are
    wider.
    """
    known = np.flatnonzero(np.isfinite(view.mean))
    seconds = np.round(view.t_seconds[known], 6)
    return dict(zip(seconds.tolist(), view.mean[known].tolist(), strict=True))


def _every_name(nodes: list[NodeHistory]) -> tuple[str, ...]:
    """Return all series that were sampled, and those of steps."""
    listed = list_series(open_store(settings.OBJECTS_URL), nodes).values()
    return (*sorted({name for names in listed for name in names}), *step_series.NAMES)


def samples(part: ExportRequest) -> Columns:
    """Return single samples, a row each, while retention keeps them."""
    if not part.names:
        raise Problem(
            422, "No series is named.", "names", "Name series, for example gpu0.busy_pct."
        )
    columns: Columns = {"time": [], "seconds": [], "node": [], "series": [], "value": []}
    for node, reader, hour in _hours(part):
        for ticks in reader.ticks(hour, part.names)[0]:
            for name, column in ticks.columns.items():
                known = column.known & _inside(part, ticks.times_ms, to_ms)
                rows = int(known.sum())
                _extend(part, columns, node, ticks.times_ms[known] / 1000)
                columns["series"] += [name] * rows
                columns["value"] += column.values[known].tolist()
    return columns


def steps(part: ExportRequest) -> Columns:
    """Return single steps, or several as one row with their number; durations are means."""
    columns: Columns = {"time": [], "seconds": [], "node": []}
    columns |= {"rank": [], "phase": [], "count": [], "duration_seconds": []}
    columns |= {"data_wait_seconds": [], "samples": [], "tokens": []}
    for node, reader, hour in _hours(part):
        table = reader.steps(hour)[0]
        starts = table["start_us"].to_numpy()
        chosen = np.flatnonzero(_inside(part, starts, to_us))
        table = table.take(chosen)
        _extend(part, columns, node, starts[chosen] / 1e6)
        for name in ("rank", "phase", "count", "samples", "tokens"):
            columns[name] += table[name].to_pylist()
        counts = table["count"].to_pylist()
        for name in ("duration", "data_wait"):
            sums = zip(table[f"{name}_us"].to_pylist(), counts, strict=True)
            means = [None if us is None else us / count / 1e6 for us, count in sums]
            columns[f"{name}_seconds"] += means
    return columns


def metrics(part: ExportRequest) -> Columns:
    """Return every value of the metrics that the program logged."""
    columns: Columns = {"time": [], "seconds": [], "node": []}
    columns |= {"rank": [], "name": [], "step": [], "value": []}
    for node, at_seconds, kind, data in _events(part):
        if kind == "metric" and (not part.names or data.get("name") in part.names):
            _extend(part, columns, node, np.array([at_seconds]))
            for name in ("rank", "name", "step"):
                columns[name].append(data.get(name))
            columns["value"].append(float(data["value"]))
    return columns


def events(part: ExportRequest) -> Columns:
    """Return epochs, checkpoints, evaluations, and what else happened once; `data` is JSON."""
    columns: Columns = {"time": [], "seconds": [], "node": [], "kind": [], "data": []}
    for node, at_seconds, kind, data in _events(part):
        if kind not in ("metric", "stderr"):
            _extend(part, columns, node, np.array([at_seconds]))
            columns["kind"].append(kind)
            columns["data"].append(json.dumps(data, sort_keys=True))
    return columns


def ledger(part: ExportRequest) -> Columns:
    """Return where the time and money went. The labels add up to the run's cost."""
    known = run_ledger(part.run)
    lines = list(known.lines) if known else []
    return {
        "label": [line.label for line in lines],
        "is_waste": [line.is_waste for line in lines],
        "seconds": [line.seconds for line in lines],
        "usd": [_usd(line.usd) for line in lines],
    }


def cost(part: ExportRequest) -> Columns:
    """Return the cost by node and day (UTC). The lines add up to the run's cost."""
    lines = cost_lines(part.run)
    return {
        "day": [line.row.day.isoformat() for line in lines],
        "node": [line.row.node.key for line in lines],
        "seconds": [line.row.microseconds / 1e6 for line in lines],
        "usd": [_usd(line.row.usd) for line in lines],
    }


def findings(part: ExportRequest) -> Columns:
    """Return what the rules found, and what it costs."""
    found = findings_of(part.run)
    texts = ("rule", "severity", "summary", "advice")
    columns: Columns = {name: [getattr(each, name) for each in found] for name in texts}
    for name in ("waste_usd_low", "waste_usd_high"):
        columns[name] = [_usd(getattr(each, name)) for each in found]
    return columns


TABLES: dict[str, Callable[[ExportRequest], Columns]] = {
    each.__name__: each
    for each in (series, samples, steps, metrics, events, ledger, cost, findings)
}


def _usd(amount: Any) -> str | None:
    """Return the amount as text, exact to the nano-dollar; None without a price."""
    return money(amount)


def _hours(part: ExportRequest) -> Iterator[tuple[str, NodeReader, int]]:
    if part.times is None:
        return
    store = open_store(settings.OBJECTS_URL)
    for node in node_histories(part.run):
        reader = NodeReader(store, node)
        for hour in reader.hours(*part.times):
            yield node.key, reader, hour


def _events(part: ExportRequest) -> Iterator[tuple[str, float, str, dict[str, Any]]]:
    for node, reader, hour in _hours(part):
        table = reader.events(hour)[0]
        times = table["time_ms"].to_numpy()
        for row in np.flatnonzero(_inside(part, times, to_ms)).tolist():
            kind, data = table["kind"][row].as_py(), json.loads(table["data"][row].as_py())
            yield node, times[row] / 1000, kind, data


def _inside(
    part: ExportRequest, moments: np.ndarray, unit: Callable[[datetime], int]
) -> np.ndarray:
    assert part.times is not None  # noqa: S101 - there are no hours without
    low, high = (unit(each) for each in part.times)
    return (moments >= low) & (moments <= high)


def _extend(part: ExportRequest, columns: Columns, node: str, unix_seconds: np.ndarray) -> None:
    """Add times and the node. Raises Problem once there are too many rows."""
    assert part.run.started_at is not None  # noqa: S101 - it has samples
    if (len(columns["node"]) + len(unix_seconds)) * len(columns) > MOST_CELLS:
        raise _too_large("Ask for a part of the run, with `from` and `to`.")
    begun = part.run.started_at.timestamp()
    seconds = [round(float(each) - begun, 6) for each in unix_seconds]
    columns["seconds"] += seconds
    columns["time"] += [_time(part.run, each) for each in seconds]
    columns["node"] += [node] * len(seconds)


def _time(run: Run, seconds: float) -> datetime:
    assert run.started_at is not None  # noqa: S101 - it has samples
    return run.started_at + timedelta(seconds=seconds)


def _too_large(fix: str) -> Problem:
    return Problem(422, f"More than {MOST_CELLS:,} values.", "to", fix)
