"""All that the report of a run shows: what its page shows, unfolded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from advisor.store.room import TooLargeError
from webapp.dashboard.report.devices import Devices, devices
from webapp.dashboard.report.drawing import (
    DrawnChart,
    HeatMap,
    Histogram,
    drawn_chart,
    heat_map,
    histogram,
    progress_chart,
)
from webapp.dashboard.report.figures import (
    JobTime,
    Part,
    UsageRow,
    job_time,
    parts,
    usage_rows,
    usage_words,
)
from webapp.dashboard.report.rules import RuleReport, rule_reports
from webapp.dashboard.selectors.charts import charts
from webapp.dashboard.selectors.drawn import drawn_with_cores, read_charts
from webapp.dashboard.selectors.run import RunPage, run_page
from webapp.runs.models import Run
from webapp.runs.views.series import Window

PASSES = ("forward pass", "backward pass")
"""Categories of operations, as importers name them."""
BUCKETS = 240
"""Of the charts: what a printed page can show."""


@dataclass(frozen=True)
class Drawn:
    """What is drawn of the samples; empty where there are none."""

    charts: list[DrawnChart] = field(default_factory=list)
    progress: DrawnChart | None = None
    heat: list[HeatMap] = field(default_factory=list)
    ranks: list[dict[str, Any]] = field(default_factory=list)
    steps: Histogram | None = None
    waits: Histogram | None = None
    wait_percentiles: list[float] = field(default_factory=list)
    """Seconds, as `step_table.WAIT_PERCENTS`."""
    phases: list[tuple[float, float, str]] = field(default_factory=list)
    """Start, width and name of what the loop did, in the scale of the charts."""
    devices: Devices = field(default_factory=Devices)
    trouble: str = ""


@dataclass(frozen=True)
class PhaseRow:
    """One phase of the run, with its cost where there is a price."""

    part: Part
    usd: Decimal | None


@dataclass(frozen=True)
class RunReport:
    run: Run
    page: RunPage
    url: str
    made_at: datetime
    time: JobTime
    phases: list[PhaseRow]
    usage: list[UsageRow]
    usage_words: str
    drawn: Drawn
    rules: list[RuleReport]

    @property
    def top_rule(self) -> RuleReport | None:
        """The rule that fired most often."""
        return next((rule for rule in self.rules if rule.is_fired), None)

    @property
    def operations(self) -> list[tuple[str, list[dict[str, Any]]]]:
        return [each for line in self.page.traced for each in line.operations]

    @property
    def categories(self) -> list[Part]:
        """The time of each category of operations. What a forward pass calls counts in both."""
        seconds = {name: sum(row["seconds"] for row in rows) for name, rows in self.operations}
        return parts(seconds, {name: name for name in seconds})

    @property
    def passes(self) -> list[Part]:
        """The ratio of forward to backward passes; empty unless both are known."""
        seconds = {part.name: part.seconds for part in self.categories}
        both = {name: seconds[name] for name in PASSES if name in seconds}
        return parts(both, {name: name for name in both}) if len(both) == len(PASSES) else []

    @property
    def imported_usage(self) -> list[dict[str, Any]]:
        """The statistics of SageMaker's own report, if it was imported."""
        return [row for line in self.page.imports for row in line.usage]

    @property
    def imported_rules(self) -> list[dict[str, Any]]:
        """What SageMaker's own rules said, if that was imported."""
        listed = (
            line.row.result.get("statistics", {}).get("rules", ()) for line in self.page.imports
        )
        return [row for rows in listed for row in rows]

    @property
    def lacking(self) -> list[str]:
        """Besides the rules that lack data: what the report can't show, and why."""
        return list(_lacking(self))


def run_report(run: Run) -> RunReport:
    page = run_page(run, may_change=False)
    names = {node.key: str(node) for node in page.nodes}
    return RunReport(
        run=run,
        page=page,
        url=settings.BASE_URL + reverse("dashboard:run", args=[run.pk]),
        made_at=timezone.now(),
        time=job_time(run, page.judged),
        phases=_phases(page),
        usage=usage_rows(page.judged, page.nodes),
        usage_words=usage_words(page.judged),
        drawn=_drawn(page, names),
        rules=rule_reports(page.judged, names),
    )


def _phases(page: RunPage) -> list[PhaseRow]:
    seconds = {phase.name: phase.seconds for phase in page.time.phases}
    usd = {phase.name: phase.usd for phase in page.money.phases}
    rows = parts(seconds, {name: name for name in seconds})
    return [PhaseRow(part, usd.get(part.name)) for part in rows]


def _drawn(page: RunPage, names: dict[str, str]) -> Drawn:
    length = page.run.duration.total_seconds() if page.run.duration else 0.0
    window = Window(0.0, length, BUCKETS)
    try:
        times = window.times(page.run)
        read = read_charts(page.nodes, times, window.buckets, with_cores=True)
        document = drawn_with_cores(page.nodes, read, window)
        each_device = devices(page.nodes, read.histories, times)
    except TooLargeError as error:
        return Drawn(trouble=f"The run has {error}, too many to draw.")
    listed = [
        drawn_chart(chart, document["charts"][chart.key], names, length)
        for chart in charts(page.nodes)
    ]
    maps = [
        heat_map("GPU utilisation, every GPU", document["heat"], names),
        heat_map("CPU utilisation, every core", document["cores"], names, "core "),
    ]
    steps = document["steps"] or {"bins": [], "ranks": [], "waits": None}
    waits = steps["waits"] or {"bins": [], "percentiles": []}
    scale = 1000 / (length or 1.0)
    return Drawn(
        charts=[each for each in listed if each.lines],
        progress=progress_chart(document["progress"], length),
        heat=[each for each in maps if each is not None],
        ranks=[rank | {"node": names.get(rank["node"], rank["node"])} for rank in steps["ranks"]],
        steps=histogram(steps["bins"]),
        waits=histogram(waits["bins"]),
        wait_percentiles=waits["percentiles"],
        devices=each_device,
        phases=[(start * scale, (end - start) * scale, n) for start, end, n in document["phases"]],
    )


def _lacking(report: RunReport) -> Iterator[str]:
    page, drawn = report.page, report.drawn
    if report.run.cost_usd is None:
        yield f"No price. {'; '.join(page.no_price_reasons)}".strip()
    if page.error:
        yield "The last analysis failed; the figures are from the one before."
    elif not page.judged:
        yield "The run isn't analysed yet: there are no verdicts."
    if page.missing_segments:
        yield f"Uploads of ended sessions that haven't arrived: {page.missing_segments}."
    if page.expired_uploads:
        yield f"Uploads that were refused, and deleted on the machine: {page.expired_uploads}."
    if page.unreadable:
        yield f"Stored objects that can't be read: {page.unreadable}."
    if page.too_large:
        yield f"The run is too large to judge: it has {page.too_large}."
    if drawn.trouble:
        yield drawn.trouble
    elif not drawn.charts:
        deleted = report.run.samples_deleted_at
        why = (
            f"deleted on {deleted:%Y-%m-%d} by the retention settings"
            if deleted
            else "none arrived"
        )
        yield f"No samples to draw: {why}."
    if not drawn.ranks:
        yield "No training steps were recorded: the time of steps and of the loop is unknown."
    if not report.operations:
        yield "No trace was imported: the time of single CPU and GPU operators is unknown."
    unmeasured = sorted({row.quantity for row in report.usage if not row.is_measured})
    if unmeasured:
        yield f"Not measured on every node: {', '.join(unmeasured)}."
    yield from page.machine_doubts
    for line in page.imports:
        yield from line.notes
        for each in line.skipped:
            yield f"Not imported: {each['count']:,} {each['what']} ({each['why']})."
