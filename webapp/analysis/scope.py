"""The regressions of a job that members of its workspace may see."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.analysis.models import AcceptedLevel, Regression
from webapp.runs.models import Job


def regressions_of(job: Job) -> QuerySet[Regression]:
    """Since runs that aren't deleted, the newest first."""
    present = Regression.objects.filter(job=job, since__deleted_at=None)
    return present.select_related("since", "last", "ended_by").order_by("-since__number")


def open_regressions_of(job: Job) -> QuerySet[Regression]:
    return regressions_of(job).filter(ended_by=None, is_accepted=False)


def accepted_levels_of(job: Job) -> QuerySet[AcceptedLevel]:
    """The newest first."""
    present = AcceptedLevel.objects.filter(run__job=job, run__deleted_at=None)
    return present.select_related("run__job").order_by("-accepted_at")
