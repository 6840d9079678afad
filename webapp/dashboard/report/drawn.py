"""Draws a run's samples and steps for the report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import numpy as np

from advisor.store.room import RoomExceededError
from advisor.store.series import SeriesView
from webapp.dashboard.report.balance import Balance, balances
from webapp.dashboard.report.devices import Devices, devices
from webapp.dashboard.report.drawing import (
    DrawnChart,
    HeatMap,
    drawn_chart,
    heat_map,
    progress_chart,
)
from webapp.dashboard.report.rules import RuleReport
from webapp.dashboard.report.steps import StepTimes, steps_of
from webapp.dashboard.selectors.charts import IO_WAIT, MOST_GPUS, charts
from webapp.dashboard.selectors.drawn import Read, read_charts, report_document
from webapp.dashboard.selectors.heat import heat_of, percent_values
from webapp.dashboard.selectors.lines import Member
from webapp.dashboard.selectors.run import RunPage
from webapp.runs.models import Node
from webapp.runs.views.series import SeriesWindow

BUCKETS = 240
"""The buckets of the charts: as many as a printed page can show."""
STRIP = 1000
"""The width of the strip of phases."""
RATES = (
    ("network", ("net.received_bytes", "net.sent_bytes")),
    ("disk", ("disk.read_bytes", "disk.written_bytes")),
)

OF_HIGHEST = "Rows of each node; network and disk as shares of their own highest rate."


@dataclass(frozen=True)
class ReportDrawings:
    """Drawings of a report; empty if there are no samples."""

    charts: list[DrawnChart] = field(default_factory=list)
    progress: DrawnChart | None = None
    heat: list[HeatMap] = field(default_factory=list)
    steps: StepTimes = field(default_factory=StepTimes)
    phases: list[tuple[float, float, str]] = field(default_factory=list)
    """The phases of the loop: start, end and name, in seconds."""
    length_seconds: float = 0.0
    devices: Devices = field(default_factory=Devices)
    balances: list[Balance] = field(default_factory=list)
    more_nodes: int = 0
    """Nodes of which nothing is drawn."""
    more_gpus: int = 0
    """The GPUs of the drawn nodes of which nothing is drawn."""
    unreadable: int = 0
    """The number of stored objects that can't be read."""
    trouble: str = ""

    @property
    def strip(self) -> list[tuple[float, float, str]]:
        """Start, width and name of the phases, in a strip of the charts' scale."""
        scale = STRIP / (self.length_seconds or 1.0)
        return [(start * scale, (end - start) * scale, name) for start, end, name in self.phases]


def drawn_of(
    page: RunPage,
    names: Mapping[str, str],
    loop: tuple[datetime, datetime] | None,
    rules: Sequence[RuleReport],
) -> ReportDrawings:
    """Draw a run's samples and steps.

    Args:
        names: of nodes, by their keys.
        loop: when the training loop began and ended; None: not known.
    """
    length = page.run.duration.total_seconds() if page.run.duration else 0.0
    window = SeriesWindow(0.0, length, BUCKETS)
    times = window.times(page.run)
    try:
        read = read_charts(page.charted, times, window.buckets, for_report=True)
        document = report_document(page.charted, read, window)
    except RoomExceededError as error:
        return ReportDrawings(trouble=f"The run has {error}, too many to draw.")
    drawn = _of_document(page, names, document, read, length)
    found = devices(page.charted, read.whole, times, loop)
    values = {rule.line.row.rule: rule.line.row.values for rule in rules}
    spread = values.get("step_outlier", {}).get("stddev")
    apart = values.get("load_balancing", {}).get("threshold")
    return replace(
        drawn,
        steps=steps_of(read.steps, document["steps"], read.last_steps, names, spread),
        devices=found,
        balances=balances(found.work, names, apart),
        unreadable=len(read.unreadable | found.unreadable),
    )


def _of_document(
    page: RunPage, names: Mapping[str, str], document: dict[str, Any], read: Read, length: float
) -> ReportDrawings:
    named, shown = dict(names), page.charted
    more_nodes = len(page.nodes) - len(shown)
    listed = [
        drawn_chart(chart, document["charts"][chart.key], named, length, more_nodes)
        for chart in [*charts(shown), IO_WAIT]
    ]
    maps = [
        heat_map("GPU utilisation, every GPU", document["heat"], named),
        heat_map("GPU memory, every GPU", _memory(shown, read), named),
        heat_map("CPU utilisation, every core", document["cores"], named, "core "),
        heat_map("Waiting for I/O, network and disk", _host(shown, read), named, note=OF_HIGHEST),
    ]
    return ReportDrawings(
        charts=[each for each in listed if each.lines],
        progress=progress_chart(document["progress"], length, _restarts(page)),
        heat=[each for each in maps if each is not None],
        phases=[(start, end, name) for start, end, name in document["phases"]],
        length_seconds=length,
        more_nodes=more_nodes,
        more_gpus=sum(max(len(node.gpus) - MOST_GPUS, 0) for node in shown),
    )


def _restarts(page: RunPage) -> Iterator[float]:
    """Yield when attempts after the first began: after failures, spot interruptions and resizes."""
    for event in page.events:
        if event.is_restart:
            yield event.seconds


def _memory(nodes: Sequence[Node], read: Read) -> dict[str, Any] | None:
    """Return how full the memory of each GPU was; None if that is known of fewer than two GPUs."""
    found = []
    for node in nodes:
        for number, gpu in enumerate(node.gpus[:MOST_GPUS]):
            view = read.views.get((node.key, f"gpu{number}.memory_used_bytes"))
            if view is not None and gpu.get("memory_bytes"):
                share = replace(view, mean=100 * view.mean / gpu["memory_bytes"])
                found.append(Member("GPU", f"GPU {number}", share))
    return heat_of([found], 0.0)


def _host(nodes: Sequence[Node], read: Read) -> dict[str, Any] | None:
    """Return rows of each node: percent of its time in I/O wait, and percent of its own highest
    rates.
    """
    rows = [row for node in nodes for row in _host_rows(node.key, read)]
    return {"rows": rows} if rows else None


def _host_rows(key: str, read: Read) -> Iterator[dict[str, Any]]:
    waiting = read.views.get((key, "host.cpu_iowait_pct"))
    if waiting is not None:
        yield {"node": key, "label": "I/O wait", "values": percent_values(waiting.mean)}
    for label, names in RATES:
        views = [read.views[key, name] for name in names if (key, name) in read.views]
        if views:
            yield {"node": key, "label": label, "values": percent_values(_of_highest(views))}


def _of_highest(views: Iterable[SeriesView]) -> np.ndarray:
    total = np.sum([view.mean for view in views], axis=0)
    highest = np.nanmax(total) if np.isfinite(total).any() else 0.0
    return np.asarray(100 * total / highest if highest > 0 else total)
