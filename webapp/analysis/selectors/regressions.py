"""A job's regressions, as its page shows them."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.analysis.models import AcceptedLevel, Regression
from webapp.runs.models import Job

MOST_PAST = 5


def open_regressions(job: Job) -> QuerySet[Regression]:
    """The newest first."""
    return _of(job).filter(ended_by=None, is_accepted=False)


def past_regressions(job: Job) -> list[Regression]:
    """The last that ended or were accepted, the newest first."""
    return list(_of(job).exclude(ended_by=None, is_accepted=False)[:MOST_PAST])


def accepted_levels(job: Job) -> QuerySet[AcceptedLevel]:
    present = AcceptedLevel.objects.filter(run__job=job, run__deleted_at=None)
    return present.select_related("run").order_by("-accepted_at")[:MOST_PAST]


def _of(job: Job) -> QuerySet[Regression]:
    present = Regression.objects.filter(job=job, since__deleted_at=None)
    return present.select_related("since", "last", "ended_by").order_by("-since__number")
