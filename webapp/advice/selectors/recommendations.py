"""Recommendations of a run and of a job."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from django.db.models import Max, OuterRef, QuerySet, Subquery

from webapp.advice.models import Recommendation
from webapp.runs.models import Job, Run


def recommendations_of(run: Run) -> QuerySet[Recommendation]:
    """Recommendations with this run as evidence, in any state; largest saving first."""
    rows = Recommendation.objects.filter(run=run)
    return rows.select_related("run", "claimed_by", "proven_by")


def open_recommendations(job: Job) -> QuerySet[Recommendation]:
    """Undecided recommendations, each with the run that is its evidence; largest saving first."""
    return _open().filter(job=job).select_related("run", "claimed_by", "proven_by")


def decided_recommendations(job: Job) -> QuerySet[Recommendation]:
    """Those that runs followed or a person decided on, the latest change first."""
    decided = (*Recommendation.FOLLOWED, Recommendation.DISMISSED, Recommendation.SNOOZED)
    present = Recommendation.objects.filter(job=job, state__in=decided, run__deleted_at=None)
    related = present.select_related("run", "claimed_by", "proven_by")
    return related.order_by("-changed_at", "-pk")


def open_saving_usd() -> Subquery:
    """The possible monthly saving of each job of a query: its best open recommendation, since
    several may exclude one another; NULL without one."""
    own = _open().filter(job=OuterRef("pk"))
    return Subquery(_best(own).values("best"))


def open_savings_usd(jobs: Iterable[Job]) -> dict[int, Decimal]:
    """The same of these jobs, by their keys; without those that have none."""
    known = _open().filter(job__in=list(jobs), monthly_saving_usd__isnull=False)
    return dict(_best(known).values_list("job", "best"))


def _best(rows: QuerySet[Recommendation]) -> QuerySet[Any, Any]:
    own: QuerySet[Any, Any] = rows.order_by().values("job")
    best: QuerySet[Any, Any] = own.annotate(best=Max("monthly_saving_usd"))
    return best


def _open() -> QuerySet[Recommendation]:
    """A deleted run is no evidence."""
    return Recommendation.objects.filter(state=Recommendation.ACTIVE, run__deleted_at=None)
