"""What a person may see. Every page and every read of the API starts here and nowhere else."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.http import Http404

from webapp.accounts.models import Workspace
from webapp.runs.models import Artefact, Job, Run


def jobs_of(workspace: Workspace | None) -> QuerySet[Job]:
    """The jobs of a workspace; none without one. Not the deleted and the merged ones."""
    if workspace is None:
        return Job.objects.none()
    return Job.objects.filter(workspace=workspace, deleted_at=None, merged_into=None)


def runs_of(workspace: Workspace | None) -> QuerySet[Run]:
    """The runs of a workspace with their jobs; none without one. Not the deleted ones."""
    if workspace is None:
        return Run.objects.none()
    return Run.objects.filter(workspace=workspace).present().select_related("job")


def every_job_of(workspace: Workspace) -> QuerySet[Job]:
    """The deleted and merged ones as well, whose deletion or merge may be undone."""
    return Job.objects.filter(workspace=workspace)


def merged_jobs_of(workspace: Workspace) -> QuerySet[Job]:
    """With the jobs that they went into."""
    merged = every_job_of(workspace).exclude(merged_into=None)
    return merged.select_related("merged_into").order_by("name")


def every_run_of(workspace: Workspace) -> QuerySet[Run]:
    """The deleted ones as well."""
    return Run.objects.filter(workspace=workspace).select_related("job")


def in_order_of_appearance(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """As they were first seen, each with `run_count` and `last_run`, the id of its newest run."""
    newest = Run.objects.filter(job=OuterRef("pk")).present().newest_first().values("pk")[:1]
    present = Count("runs", filter=Q(runs__deleted_at=None))
    return jobs.annotate(run_count=present, last_run=Subquery(newest)).order_by("pk")


def run_or_404(workspace: Workspace | None, run_id: UUID | str) -> Run:
    """Another workspace's run is as missing as one that never was; so is a malformed id."""
    try:
        return runs_of(workspace).get(pk=UUID(str(run_id)))
    except (ValueError, Run.DoesNotExist):
        raise Http404("There is no such run in this workspace.") from None


def run_called(workspace: Workspace | None, reference: str) -> Run:
    """By its id, or as `JOB#NUMBER`: the job's name, or the one that its agents send."""
    name, _, number = reference.rpartition("#")
    if not name or not number.isdecimal():
        return run_or_404(workspace, reference)
    called = Q(job__name=name) | Q(job__key=name)
    run = runs_of(workspace).filter(called, number=int(number[:9])).first()
    if run is None:
        raise Http404("There is no such run in this workspace.")
    return run


def artefacts_of(run: Run) -> QuerySet[Artefact]:
    """The files that belong to a run that a person may see."""
    return Artefact.objects.filter(run=run)
