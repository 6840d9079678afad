"""Where the analysis of a run stands, and what its rules found."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.analysis.models import Analysis, Judgement
from webapp.runs.models import Run


def analysis_of(run: Run) -> Analysis | None:
    """None: nothing of the run was ever due."""
    return Analysis.objects.filter(run=run).first()


def findings_of(run: Run) -> QuerySet[Judgement]:
    """Of the rules that fired."""
    return Judgement.objects.filter(run=run, state=Judgement.FIRED)
