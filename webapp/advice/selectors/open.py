"""Recommendations that nobody has decided on yet."""

from __future__ import annotations

from django.db.models import Max, OuterRef, QuerySet, Subquery

from webapp.advice.models import Recommendation
from webapp.runs.models import Job


def open_recommendations(job: Job) -> QuerySet[Recommendation]:
    """What saves most first, each with the run that is its evidence."""
    return _open().filter(job=job).select_related("run")


def open_saving_usd() -> Subquery:
    """Of each job of a query, what it could save a month: its best open recommendation, since
    several may exclude one another; NULL without one."""
    own = _open().filter(job=OuterRef("pk")).order_by().values("job")
    return Subquery(own.annotate(best=Max("monthly_saving_usd")).values("best"))


def _open() -> QuerySet[Recommendation]:
    """A deleted run is no evidence."""
    return Recommendation.objects.filter(state=Recommendation.ACTIVE, run__deleted_at=None)
