"""All that the report of a run shows: what its page shows, unfolded."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.conf import settings
from django.urls import reverse
from django.utils import timezone

from webapp.dashboard.report.drawn import ReportDrawings, drawn_of
from webapp.dashboard.report.during import operators_by_rule
from webapp.dashboard.report.figures import (
    BarPart,
    JobTime,
    UsageRow,
    job_time,
    node_words,
    parts,
    usage_rows,
    usage_words,
)
from webapp.dashboard.report.lacking import list_missing
from webapp.dashboard.report.loop import LoopAnalysis, loop_analysis
from webapp.dashboard.report.operators import OperatorTable, operators_of
from webapp.dashboard.report.rules import RuleReport, rule_reports
from webapp.dashboard.selectors.run import RunPage, run_page
from webapp.runs.models import Run
from webapp.runs.node_names import names_of


@dataclass(frozen=True)
class PhaseRow:
    """One phase of the run, with its cost where there is a price."""

    part: BarPart
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
    usage_of_nodes: list[tuple[str, str]]
    """Name and sentence of each node."""
    drawn: ReportDrawings
    rules: list[RuleReport]
    operators: OperatorTable
    loop: LoopAnalysis
    lacking: list[str]
    """The missing parts of the report and the reasons, besides the rules that lack data."""

    @property
    def top_rule(self) -> RuleReport | None:
        """The rule that fired most often."""
        return next((rule for rule in self.rules if rule.is_fired), None)

    @property
    def processing_jobs(self) -> list[str]:
        """ARNs of SageMaker's jobs that evaluated the profiler's rules, as far as known."""
        said = (line.row.result.get("statistics", {}) for line in self.page.imports)
        return list(dict.fromkeys(arn for each in said for arn in each.get("processing_jobs", ())))

    @property
    def imported_usage(self) -> list[dict[str, Any]]:
        """The statistics of SageMaker's own report, if it was imported."""
        return [row for line in self.page.imports for row in line.usage]

    @property
    def imported_rules(self) -> list[dict[str, Any]]:
        """Return what SageMaker's own rules said, if that was imported."""
        listed = (
            line.row.result.get("statistics", {}).get("rules", ()) for line in self.page.imports
        )
        return [row for rows in listed for row in rows]


def run_report(run: Run) -> RunReport:
    page = run_page(run, may_change=False)
    names = names_of(page.nodes)
    time, rules = job_time(run, page.judged), rule_reports(page.judged, names)
    drawn = drawn_of(page, names, time.loop_times, rules)
    usage, operators = usage_rows(page.judged, page.nodes), operators_of(page.traced)
    during = operators_by_rule(page.traced, rules, page.nodes, run.started_at)
    return RunReport(
        run=run,
        page=page,
        url=settings.BASE_URL + reverse("dashboard:run", args=[run.pk]),
        made_at=timezone.now(),
        time=time,
        phases=_phases(page),
        usage=usage,
        usage_words=usage_words(page.judged),
        usage_of_nodes=node_words(usage, drawn.devices.traffic, page.nodes),
        drawn=drawn,
        rules=rules,
        operators=operators,
        loop=loop_analysis(rules, drawn.phases, during),
        lacking=list(list_missing(page, drawn, usage, operators)),
    )


def _phases(page: RunPage) -> list[PhaseRow]:
    seconds = {phase.name: phase.seconds for phase in page.time.phases}
    usd = {phase.name: phase.usd for phase in page.money.phases}
    rows = parts(seconds, {name: name for name in seconds})
    return [PhaseRow(part, usd.get(part.name)) for part in rows]
