"""The rows that a token may read or write through MLflow's API."""

from __future__ import annotations

from uuid import UUID

from django.db.models import Q, QuerySet

from webapp.accounts.models import Token, Workspace
from webapp.mlflow_api.errors import missing
from webapp.mlflow_api.models import LoggedModel, TrackedRun
from webapp.runs import scope
from webapp.runs.models import Job

DEFAULT_ID, DEFAULT_NAME = "0", "Default"
"""The experiment of programs that name none."""


def tracked_runs_of(token: Token) -> QuerySet[TrackedRun]:
    """Those that the token may read, without deleted ones."""
    runs = TrackedRun.objects.filter(run__workspace=token.workspace, run__deleted_at=None)
    runs = runs.select_related("experiment", "run")
    return runs if token.allows(Token.READ) else runs.filter(run__uploaders=token)


def read_run(token: Token, run_id: UUID) -> TrackedRun:
    """Raises MlflowError."""
    found = tracked_runs_of(token).filter(pk=run_id).first()
    if found is None:
        raise missing(f"Run with id={run_id.hex} not found")
    return found


def writable_run(token: Token, run_id: UUID) -> TrackedRun:
    """As agents, every token that uploads may write to any run of its workspace. Raises
    MlflowError."""
    runs = TrackedRun.objects.filter(run__workspace=token.workspace, run__deleted_at=None)
    found = runs.select_related("experiment", "run__job").filter(pk=run_id).first()
    if found is None:
        raise missing(f"Run with id={run_id.hex} not found")
    return found


def locked(tracked: TrackedRun) -> TrackedRun:
    """The row as it is now, locked until the transaction ends."""
    held = TrackedRun.objects.select_for_update(of=("self",), no_key=True)
    return held.select_related("experiment", "run__job").get(pk=tracked.pk)


def models_of(token: Token) -> QuerySet[LoggedModel]:
    models = LoggedModel.objects.filter(tracked__in=tracked_runs_of(token))
    return models.select_related("tracked__experiment", "tracked__run")


def read_model(token: Token, model_id: str) -> LoggedModel:
    """Raises MlflowError."""
    found = models_of(token).filter(pk=model_id).first()
    if found is None:
        raise missing(f"Logged model with ID '{model_id[:80]}' not found.")
    return found


def experiments_of(token: Token) -> QuerySet[Job]:
    """All jobs of the workspace; those of its own runs for a token that may only upload."""
    jobs = scope.every_job_of(token.workspace).filter(deleted_at=None)
    if token.allows(Token.READ):
        return jobs
    return jobs.filter(pk__in=tracked_runs_of(token).values("experiment"))


def experiment_called(workspace: Workspace, name: str) -> Job | None:
    jobs = scope.every_job_of(workspace).filter(deleted_at=None)
    return jobs.filter(Q(name=name) | Q(key=name)).order_by("pk").first()


def experiment(workspace: Workspace, experiment_id: str) -> Job | None:
    """None also for the default experiment of a workspace that has no run of it."""
    if experiment_id == DEFAULT_ID:
        return experiment_called(workspace, DEFAULT_NAME)
    if not experiment_id.isdecimal() or len(experiment_id) > 18:
        return None
    return scope.every_job_of(workspace).filter(deleted_at=None, pk=int(experiment_id)).first()
