"""Rule judgements, as the pages list them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count

from rules.registry import title_of
from webapp.analysis.models import Judgement
from webapp.runs.models import Run

STATES = (
    Judgement.FIRED,
    Judgement.INSUFFICIENT,
    Judgement.PASSED,
    Judgement.NOT_APPLICABLE,
)
SEVERITIES = ("high", "medium", "low")


@dataclass(frozen=True)
class RuleLine:
    """One rule's judgement with the rule's title."""

    row: Judgement
    title: str

    @property
    def state_words(self) -> str:
        return str(self.row.state).replace("_", " ").capitalize()

    @property
    def windows(self) -> list[list[object]]:
        """Start and end in seconds since the run's start, and the node."""
        return list(self.row.numbers.get("windows", []))


def rule_lines(run: Run) -> list[RuleLine]:
    """Fired first, the most important of them first."""
    lines = [RuleLine(row, title_of(row.rule)) for row in Judgement.objects.filter(run=run)]
    return sorted(lines, key=_weight)


def finding_counts(runs: Iterable[Run]) -> Counter[UUID]:
    """The number of fired rules per run."""
    fired = Judgement.objects.filter(run__in=[run.pk for run in runs], state=Judgement.FIRED)
    return Counter(dict(fired.order_by().values_list("run").annotate(Count("pk"))))


def _weight(line: RuleLine) -> tuple[int, int, float, str]:
    state, severity = line.row.state, line.row.severity
    return (
        STATES.index(state) if state in STATES else len(STATES),
        SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES),
        -line.row.waste_seconds_high,
        line.row.rule,
    )
