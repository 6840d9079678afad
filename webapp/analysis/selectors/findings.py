"""The state of a run's analysis, and its findings."""

from __future__ import annotations

from decimal import Decimal

from webapp.analysis.models import Analysis, Judgement
from webapp.runs.models import Run


def analysis_of(run: Run) -> Analysis | None:
    """Return the run's analysis, or None if the run was never queued."""
    return Analysis.objects.filter(run=run).first()


def findings_of(run: Run) -> list[Judgement]:
    """Return the judgements of rules that fired: the causes by what a fix gives back, each before
    what it explains.
    """
    fired = list(Judgement.objects.filter(run=run, state=Judgement.FIRED))
    weights = {row.rule: row.weight for row in fired}

    def place(row: Judgement) -> tuple[Decimal, float, str, bool, Decimal, float]:
        cause = row.explained_by or row.rule
        usd, seconds = weights.get(cause, row.weight)
        return -usd, -seconds, cause, bool(row.explained_by), -row.weight[0], -row.weight[1]

    return sorted(fired, key=place)
