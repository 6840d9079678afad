"""The measurements that members of a workspace may see."""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import Exists, QuerySet
from django.db.models.functions import Coalesce

from webapp.accounts.models import Workspace
from webapp.measurements.models import Measurement
from webapp.runs.models import Job, Run, RunQuerySet


def measurements_of_job(job: Job) -> QuerySet[Measurement]:
    """Return the measurements of runs and probes that aren't deleted, the newest first."""
    return _present().filter(run__job=job).order_by("-run__started_at", "-run__number")


def measurements_of_workspace(workspace: Workspace) -> QuerySet[Measurement]:
    present = _present().filter(run__workspace=workspace, run__job__deleted_at=None)
    # Before the first measurement, no run needs to be looked at.
    present = present.filter(Exists(Measurement.objects.all()))
    # The order is that of the index of a workspace's runs, so that the database can stop at the
    # limit.
    began = Coalesce("run__started_at", "run__created_at")
    return present.order_by(began.desc(), "-run__number")


def measurements_of_runs(runs: Collection[Run]) -> QuerySet[Measurement]:
    return _present().filter(run__in=runs)


def probes_of(job: Job) -> RunQuerySet:
    """Return the job's probes, the newest first."""
    return job.present_runs.filter(probe__isnull=False).newest_first()


def _present() -> QuerySet[Measurement]:
    return Measurement.objects.filter(run__deleted_at=None).select_related("run__job")
