"""The rows that a token may read or change through MLflow's API.

Ids of runs and models are random: who knows one may upload to it, as agents may. Reading and
changing need more. The id of an experiment is random, too, and clients learn it by the name.
"""

from __future__ import annotations

from uuid import UUID

from django.db.models import Q, QuerySet

from webapp.accounts.models import Token, Workspace
from webapp.mlflow_api.errors import MlflowError, invalid_parameter, missing_resource
from webapp.mlflow_api.models import LoggedModel, TrackedRun
from webapp.runs import scope
from webapp.runs.models import Job

DEFAULT_ID, DEFAULT_NAME = "0", "Default"
"""The experiment of programs that name none."""
_MOST_NUMBER_DIGITS, _MOST_ID_DIGITS = 18, 39


def tracked_runs_of(token: Token) -> QuerySet[TrackedRun]:
    """Return the runs that the token may read, without deleted ones."""
    runs = _every_run_of(token)
    return runs if token.allows(Token.READ) else runs.filter(run__uploaders=token)


def read_run(token: Token, run_id: UUID) -> TrackedRun:
    """Return a run that the token may read. Raises MlflowError."""
    return _found(tracked_runs_of(token), run_id)


def run_by_id(token: Token, run_id: UUID) -> TrackedRun:
    """Return any run of the workspace: as agents, every token that uploads may add to it. Raises
    MlflowError."""
    return _found(_every_run_of(token), run_id)


def changeable_run(token: Token, run_id: UUID) -> TrackedRun:
    """Return a run that the token uploaded to; with the scope `write`, any run of the workspace.
    Raises MlflowError."""
    tracked = run_by_id(token, run_id)
    check_changeable(token, tracked)
    return tracked


def resumable_run(token: Token, run_id: UUID) -> TrackedRun:
    """Return a run that the token may read or change: a client reads a run before it continues it.
    Raises MlflowError."""
    return read_run(token, run_id) if token.allows(Token.READ) else changeable_run(token, run_id)


def check_changeable(token: Token, tracked: TrackedRun) -> None:
    """Check the right to change. Raises MlflowError unless `changeable_run` would return the
    run.
    """
    if not (token.allows(Token.WRITE) or has_uploaded(token, tracked)):
        raise _not_changeable(token, _no_run(tracked.pk))


def has_uploaded(token: Token, tracked: TrackedRun) -> bool:
    return tracked.run.uploaders.filter(pk=token.pk).exists()


def lock_run(tracked: TrackedRun) -> TrackedRun:
    """Return the row as it is now, locked until the transaction ends."""
    held = TrackedRun.objects.select_for_update(of=("self",), no_key=True)
    return held.select_related("experiment", "run__job").get(pk=tracked.pk)


def models_of(token: Token) -> QuerySet[LoggedModel]:
    """Return the models of runs that the token may read."""
    return _every_model_of(token).filter(tracked__in=tracked_runs_of(token))


def read_model(token: Token, model_id: str) -> LoggedModel:
    """Return a model of a run that the token may read. Raises MlflowError."""
    return _found_model(models_of(token), model_id)


def model_by_id(token: Token, model_id: str) -> LoggedModel:
    """Return any model of the workspace. Raises MlflowError."""
    return _found_model(_every_model_of(token), model_id)


def changeable_model(token: Token, model_id: str) -> LoggedModel:
    """Return a model of a run that the token may change. Raises MlflowError."""
    model = model_by_id(token, model_id)
    if not (token.allows(Token.WRITE) or has_uploaded(token, model.tracked)):
        raise _not_changeable(token, _no_model(model_id))
    return model


def jobs_of(token: Token) -> QuerySet[Job]:
    """Return all jobs of the workspace; those of its own runs for a token that may only upload."""
    jobs = _present_jobs(token.workspace)
    if token.allows(Token.READ):
        return jobs
    return jobs.filter(pk__in=tracked_runs_of(token).values("experiment"))


def may_read_job(token: Token, job: Job) -> bool:
    """Return whether the token may read more of the job than its name and id."""
    return jobs_of(token).filter(pk=job.pk).exists()


def job_called(token: Token, name: str) -> Job | None:
    """Return the job of this name; the default one isn't saved if it has no run yet."""
    job = _called(token.workspace, name)
    return _new_default(token) if job is None and name == DEFAULT_NAME else job


def known_job(token: Token, experiment_id: str) -> Job:
    """Return the job of an id. An id that can be counted up to, as earlier versions gave them, is
    of a job that the token may read. Raises MlflowError."""
    job = experiment(token.workspace, experiment_id)
    if job is None and experiment_id == DEFAULT_ID:
        return _new_default(token)
    is_guessable = experiment_id != DEFAULT_ID and len(experiment_id) <= _MOST_NUMBER_DIGITS
    if job is None or (is_guessable and not may_read_job(token, job)):
        raise _no_job(experiment_id)
    return job


def job_by_id(token: Token, experiment_id: str) -> Job:
    """Return any job of the workspace. Raises MlflowError."""
    job = experiment(token.workspace, experiment_id)
    if job is None:
        raise _no_job(experiment_id)
    return job


def experiment(workspace: Workspace, experiment_id: str) -> Job | None:
    """Return the job; None also for the default experiment of a workspace that has no run of it."""
    if experiment_id == DEFAULT_ID:
        return _called(workspace, DEFAULT_NAME)
    if not experiment_id.isdecimal() or len(experiment_id) > _MOST_ID_DIGITS:
        return None
    number = int(experiment_id)
    jobs = _present_jobs(workspace)
    if len(experiment_id) <= _MOST_NUMBER_DIGITS:
        return jobs.filter(pk=number).first()
    return jobs.filter(uuid=UUID(int=number)).first() if number < 1 << 128 else None


def is_deleted(job: Job) -> bool:
    """Return whether a client has deleted the experiment."""
    return hasattr(job, "mlflow_deletion")


def check_active(job: Job) -> Job:
    """Return the experiment. Raises MlflowError if a client has deleted it."""
    if is_deleted(job):
        raise invalid_parameter(
            f"The experiment '{job.name[:200]}' is deleted. Restore it with "
            "MlflowClient().restore_experiment()."
        )
    return job


def _present_jobs(workspace: Workspace) -> QuerySet[Job]:
    jobs = scope.every_job_of(workspace).filter(deleted_at=None)
    return jobs.select_related("mlflow_deletion")


def _every_run_of(token: Token) -> QuerySet[TrackedRun]:
    runs = TrackedRun.objects.filter(run__workspace=token.workspace, run__deleted_at=None)
    return runs.select_related("experiment__mlflow_deletion", "run__job")


def _found(runs: QuerySet[TrackedRun], run_id: UUID) -> TrackedRun:
    found = runs.filter(pk=run_id).first()
    if found is None:
        raise _no_run(run_id)
    return found


def _every_model_of(token: Token) -> QuerySet[LoggedModel]:
    models = LoggedModel.objects.filter(tracked__in=_every_run_of(token))
    return models.select_related("tracked__experiment", "tracked__run")


def _found_model(models: QuerySet[LoggedModel], model_id: str) -> LoggedModel:
    found = models.filter(pk=model_id).first()
    if found is None:
        raise _no_model(model_id)
    return found


def _called(workspace: Workspace, name: str) -> Job | None:
    jobs = _present_jobs(workspace)
    return jobs.filter(Q(name=name) | Q(key=name)).order_by("pk").first()


def _new_default(token: Token) -> Job:
    return Job(workspace=token.workspace, key=DEFAULT_NAME, name=DEFAULT_NAME)


def _not_changeable(token: Token, otherwise: MlflowError) -> MlflowError:
    """Say why to a token that may read the row; to any other one the row is missing."""
    if not token.allows(Token.READ):
        return otherwise
    return MlflowError(
        "PERMISSION_DENIED",
        "This token has uploaded nothing to the run, and lacks the scope write. "
        "Use a token with the scope write to change runs of other tokens.",
    )


def _no_run(run_id: UUID) -> MlflowError:
    return missing_resource(f"Run with id={run_id.hex} not found")


def _no_model(model_id: str) -> MlflowError:
    return missing_resource(f"Logged model with ID '{model_id[:80]}' not found.")


def _no_job(experiment_id: str) -> MlflowError:
    return missing_resource(f"No Experiment with id={experiment_id[:80]} exists")
