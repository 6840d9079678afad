"""Selects the results of analyses that members of a workspace may see."""

from __future__ import annotations

from datetime import UTC, datetime

from django.db.models import Aggregate, F, Q, QuerySet, Subquery, Value

from webapp.accounts.models import Workspace
from webapp.analysis.models import AcceptedLevel, Analysis, Life, Regression
from webapp.runs import scope
from webapp.runs.models import Job, Run

_OF_REGRESSION = (
    *("change", "run_count", "extra_usd", "opened_at"),
    *("job__name", "job__uuid", "since__number"),
)


def regressions_of(job: Job) -> QuerySet[Regression]:
    """Return the regressions since runs that aren't deleted, the newest first."""
    present = Regression.objects.filter(job=job, since__deleted_at=None)
    return present.select_related("since", "last", "ended_by").order_by("-since__number")


def open_regressions_of(job: Job) -> QuerySet[Regression]:
    return regressions_of(job).filter(ended_by=None, is_accepted=False)


def accepted_levels_of(job: Job) -> QuerySet[AcceptedLevel]:
    """Return the accepted levels, the newest first."""
    present = AcceptedLevel.objects.filter(run__job=job, run__deleted_at=None)
    return present.select_related("run__job").order_by("-accepted_at")


def every_open_regression_of(workspace: Workspace) -> QuerySet[Regression]:
    """Return the open regressions of all jobs, the most expensive first; those without a price
    last. Only the names of jobs and runs are read: their rows are wide.
    """
    jobs = scope.jobs_of(workspace)
    opened = Regression.objects.filter(job__in=jobs, since__deleted_at=None)
    opened = opened.filter(ended_by=None, is_accepted=False).select_related("job", "since")
    opened = opened.only(*_OF_REGRESSION)
    return opened.order_by(F("extra_usd").desc(nulls_last=True), "-opened_at")


def lives_of(workspace: Workspace, job: Job | None = None) -> QuerySet[Life]:
    """Return the lives of present runs, without probes; of all present jobs or of one."""
    jobs = [job] if job else scope.jobs_of(workspace)
    lives = Life.objects.filter(run__workspace=workspace, run__job__in=jobs)
    return lives.filter(run__deleted_at=None, run__probe__isnull=True)


def analysed_runs_of(workspace: Workspace) -> QuerySet[Run]:
    """Return the runs whose analysis is final."""
    return scope.runs_of(workspace).filter(analysis__is_final=True)


def pending_analyses(workspace: Workspace, figure: type[Aggregate]) -> Subquery:
    """Return a figure of the keys of the workspace's analyses that a worker has still to do.

    From the index of due work, which is short, rather than from the workspace's many runs: the
    workspace is a condition of the figure, so that no database begins with it.
    """
    own = figure("pk", filter=Q(run__workspace=workspace))
    due = Analysis.objects.filter(wanted__gt=F("done"), due_at__gt=datetime.min.replace(tzinfo=UTC))
    return Subquery(due.annotate(all=Value(1)).values("all").annotate(own=own).values("own"))
