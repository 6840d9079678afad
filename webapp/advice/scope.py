"""The recommendations that members of a workspace may see."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.accounts.models import Workspace
from webapp.advice.models import RealisedSaving, Recommendation
from webapp.runs import scope
from webapp.runs.models import Job

ADVICE_DETAILS = ("candidates", "evidence", "assumptions", "how_to_apply", "claimed_estimate")
RUN_DETAILS = ("metric_progress", "summary", "command", "git", "note")
UNREAD = (
    *(f"recommendation__{name}" for name in ADVICE_DETAILS),
    *(f"{run}__{name}" for run in ("run", "recommendation__run") for name in RUN_DETAILS),
)
"""Large columns that no list of savings shows."""


def recommendations_of(workspace: Workspace | None) -> QuerySet[Recommendation]:
    """Return recommendations in any state, of jobs that aren't deleted or merged, from runs that
    aren't deleted.
    """
    present = Recommendation.objects.filter(job__in=scope.jobs_of(workspace), run__deleted_at=None)
    return present.select_related("job", "run", "claimed_by", "proven_by", "reopened_by")


def recommendations_of_job(job: Job) -> QuerySet[Recommendation]:
    """Return a job's recommendations in any state; the newest decisions first."""
    return recommendations_of(job.workspace).filter(job=job).order_by("-changed_at", "-pk")


def realised_savings_of(workspace: Workspace) -> QuerySet[RealisedSaving]:
    """Return the savings of runs that followed recommendations, with both, in order of time."""
    present = RealisedSaving.objects.filter(
        recommendation__in=recommendations_of(workspace).select_related(None).order_by(),
        recommendation__state__in=Recommendation.FOLLOWED,
        run__deleted_at=None,
    )
    with_both = present.select_related("recommendation__job", "recommendation__run", "run")
    return with_both.defer(*UNREAD).order_by("run__started_at", "pk")
