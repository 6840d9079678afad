"""The state of a run's analysis, and its findings."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.analysis.models import Analysis, Judgement
from webapp.runs.models import Run


def analysis_of(run: Run) -> Analysis | None:
    """None: the run was never queued."""
    return Analysis.objects.filter(run=run).first()


def findings_of(run: Run) -> QuerySet[Judgement]:
    """Judgements of rules that fired."""
    return Judgement.objects.filter(run=run, state=Judgement.FIRED)
