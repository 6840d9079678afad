"""What a run's page shows, from its rows alone: the samples are read by the charts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.core.exceptions import ObjectDoesNotExist

from rules.registry import all_rules
from webapp.advice.selectors.candidates import Advice, advice
from webapp.analysis.selectors.ledger import LedgerView, run_ledger
from webapp.analysis.selectors.run_money import RunMoney, run_money
from webapp.dashboard.selectors.baseline import baseline_of
from webapp.dashboard.selectors.charts import charts
from webapp.runs.models import Node, Run

NOT_APPLICABLE = "not_applicable"
STATES = ("fired", "insufficient_data", "passed", NOT_APPLICABLE)
SEVERITIES = ("high", "medium", "low")


@dataclass(frozen=True)
class Judged:
    """One rule's judgement with the rule's title."""

    row: Any
    title: str

    @property
    def state_words(self) -> str:
        return str(self.row.state).replace("_", " ").capitalize()

    @property
    def windows(self) -> list[list[Any]]:
        return list(self.row.numbers.get("windows", []))


@dataclass(frozen=True)
class CostLine:
    """The cost of one node on one day, and the price rows that made it."""

    row: Any
    prices: list[Any]

    @property
    def length(self) -> timedelta:
        return timedelta(microseconds=self.row.microseconds)


@dataclass(frozen=True)
class RunPage:
    run: Run
    nodes: list[Node]
    judged: list[Judged]
    cost_lines: list[CostLine]
    recommendations: list[Advice]
    analysis: Any | None
    before: Run | None
    after: Run | None
    baseline: Run | None
    """What it is compared with."""
    money: RunMoney
    ledger: LedgerView | None

    @property
    def findings(self) -> list[Judged]:
        """The fired ones, the most severe and wasteful first."""
        return [item for item in self.judged if item.row.state == "fired"]

    @property
    def applicable(self) -> list[Judged]:
        return [item for item in self.judged if item.row.state != NOT_APPLICABLE]

    @property
    def inapplicable(self) -> list[Judged]:
        """Rules about what this run doesn't have, a GPU for instance: shown folded."""
        return [item for item in self.judged if item.row.state == NOT_APPLICABLE]

    @property
    def is_at_least(self) -> bool:
        """The cost goes on, or nobody knows when it stopped."""
        return self.run.state in (Run.RUNNING, Run.LOST)

    @property
    def is_changing(self) -> bool:
        """More may come, so the page looks again."""
        pending = self.analysis is not None and self.analysis.done < self.analysis.wanted
        return self.run.state == Run.RUNNING or (pending and not self.error)

    @property
    def error(self) -> str:
        return self.analysis.error if self.analysis is not None else ""

    @property
    def no_price_reasons(self) -> list[str]:
        """Why there is no cost, in words; a node is named as a person knows it."""
        names = {node.key: str(node) for node in self.nodes}
        found = [reason.partition(": ") for reason in self.run.summary.get("missing", [])]
        return [
            f"{names.get(key, key)}: {why}" if len(self.nodes) > 1 and why else why or key
            for key, _, why in found
        ]

    @property
    def missing_segments(self) -> int:
        return int(self.run.summary.get("missing_segments") or 0)

    @property
    def unreadable(self) -> int:
        return int(self.run.summary.get("unreadable") or 0)

    @property
    def phases(self) -> list[tuple[str, float]]:
        return list((self.run.summary.get("phase_seconds") or {}).items())

    def chart_document(self) -> dict[str, Any]:
        """What the browser needs to draw: charts, nodes, evidence."""
        return {
            "length_seconds": self.run.duration.total_seconds() if self.run.duration else 0.0,
            "nodes": {node.key: str(node) for node in self.nodes},
            "charts": [chart.document() for chart in charts(self.nodes)],
            "evidence": [
                {"rule": item.row.rule, "title": item.title, "windows": item.windows}
                for item in self.findings
                if item.windows
            ],
        }


def run_page(run: Run) -> RunPage:
    siblings = run.job.present_runs
    return RunPage(
        run=run,
        nodes=list(Node.objects.filter(attempt__run=run).select_related("attempt")),
        judged=_judged(run),
        cost_lines=cost_lines(run),
        recommendations=advice(run.recommendations.all(), run.summary.get("instance_types") or ()),
        analysis=_analysis(run),
        before=siblings.before(run).newest_first().first(),
        after=siblings.after(run).newest_first().last(),
        baseline=baseline_of(run),
        money=run_money(run),
        ledger=run_ledger(run),
    )


def cost_lines(run: Run) -> list[CostLine]:
    """They sum to the run's cost exactly."""
    parts = run.cost_parts.select_related("node").prefetch_related("prices")
    return [CostLine(part, list(part.prices.all())) for part in parts]


def _judged(run: Run) -> list[Judged]:
    """Fired first, and of these what matters most; a rule that is gone keeps its id as title."""
    rules = all_rules()
    rows = run.judgements.all()
    found = [Judged(row, rules[row.rule].title if row.rule in rules else row.rule) for row in rows]
    return sorted(found, key=_weight)


def _weight(item: Judged) -> tuple[int, int, float, str]:
    state, severity = item.row.state, item.row.severity
    return (
        STATES.index(state) if state in STATES else len(STATES),
        SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES),
        -item.row.waste_seconds_high,
        item.row.rule,
    )


def _analysis(run: Run) -> Any | None:
    try:
        return run.analysis
    except ObjectDoesNotExist:
        return None
