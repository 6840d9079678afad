"""The state of a run's analysis, and its findings."""

from __future__ import annotations

from webapp.analysis.models import Analysis, Judgement
from webapp.runs.models import Run


def analysis_of(run: Run) -> Analysis | None:
    """None: the run was never queued."""
    return Analysis.objects.filter(run=run).first()


def findings_of(run: Run) -> list[Judgement]:
    """Judgements of rules that fired: the causes by their waste, each before what it explains."""
    fired = list(Judgement.objects.filter(run=run, state=Judgement.FIRED))
    counted = {row.rule: row.counted_seconds_high for row in fired}

    def place(row: Judgement) -> tuple[float, str, bool, float]:
        cause = row.explained_by or row.rule
        return -counted.get(cause, 0.0), cause, bool(row.explained_by), -row.waste_seconds_high

    return sorted(fired, key=place)
