"""Selects the rows that a person or token may see. Every page and every API read starts here."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from django.db.models import Count, OuterRef, Q, QuerySet, Subquery
from django.http import Http404

from webapp.accounts.models import Token, Workspace
from webapp.runs.models import Artefact, Job, Run, Session


def jobs_of(workspace: Workspace | None) -> QuerySet[Job]:
    """Return the jobs of a workspace, without deleted and merged ones. Empty without a
    workspace.
    """
    if workspace is None:
        return Job.objects.none()
    return workspace.jobs.filter(deleted_at=None, merged_into=None)


def runs_of(reader: Workspace | Token | None) -> QuerySet[Run]:
    """Return the runs of a workspace, or those that a token may read, with their jobs, without
    deleted ones. A token without the scope `read` reads only the runs that it uploaded to.
    """
    if reader is None:
        return Run.objects.none()
    if isinstance(reader, Token):
        runs = runs_of(reader.workspace)
        return runs if reader.allows(Token.READ) else runs.filter(uploaders=reader)
    return Run.objects.filter(workspace=reader).present().select_related("job")


def every_job_of(workspace: Workspace) -> QuerySet[Job]:
    """Return all jobs, including deleted and merged ones, which can be restored."""
    return Job.objects.filter(workspace=workspace)


def merged_jobs_of(workspace: Workspace) -> QuerySet[Job]:
    """Return the merged jobs with the jobs that they were merged into."""
    merged = every_job_of(workspace).exclude(merged_into=None)
    return merged.select_related("merged_into").order_by("name")


def every_run_of(workspace: Workspace) -> QuerySet[Run]:
    """Return all runs, including deleted ones."""
    return Run.objects.filter(workspace=workspace).select_related("job")


def in_order_of_appearance(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Return the jobs in order of first appearance, with `run_count` and `last_run`, the newest
    run's id.
    """
    newest = Run.objects.filter(job=OuterRef("pk")).present().newest_first().values("pk")[:1]
    present = Count("runs", filter=Q(runs__deleted_at=None))
    return jobs.annotate(run_count=present, last_run=Subquery(newest)).order_by("pk")


def run_or_404(reader: Workspace | Token | None, run_id: UUID | str) -> Run:
    """Return the run; answer 404 for another workspace's run and for a malformed id, as for a run
    that doesn't exist.
    """
    try:
        return runs_of(reader).get(pk=UUID(str(run_id)))
    except (ValueError, Run.DoesNotExist):
        raise Http404("There is no such run in this workspace.") from None


def run_called(reader: Workspace | Token | None, reference: str) -> Run:
    """Return a run by its id or as `JOB#NUMBER`, with the job's name or the name that its agents
    send.
    """
    name, _, number = reference.rpartition("#")
    if not name or not number.isdecimal():
        return run_or_404(reader, reference)
    called = Q(job__name=name) | Q(job__key=name)
    run = runs_of(reader).filter(called, number=int(number[:9])).first()
    if run is None:
        raise Http404("There is no such run in this workspace.")
    return run


def training_run(reader: Workspace | Token | None, reference: str) -> Run:
    """Return any run of a training, by the training's key or id, or by one of its runs. 404 where
    there is none in the workspace.
    """
    named = Q(training__key=reference)
    with suppress(ValueError):
        named |= Q(training__uuid=UUID(reference))
    found = runs_of(reader).filter(named, probe__isnull=True).order_by("-created_at", "pk")
    return found.first() or run_called(reader, reference)


def sessions_of(run: Run) -> list[Session]:
    """Return the run's sessions with their nodes and attempts."""
    sessions = Session.objects.filter(node__attempt__run=run)
    return list(sessions.select_related("node__attempt"))


def artefacts_of(run: Run) -> QuerySet[Artefact]:
    """Return the files that belong to a run that a person may see."""
    return Artefact.objects.filter(run=run)
