"""Says who may call a method of MLflow's API, and what it may touch: each method has one `Right`.

The row that a request names is found here, so that no method can reach another one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from webapp.accounts.models import Token
from webapp.mlflow_api import registered, scope
from webapp.mlflow_api.arguments import Arguments
from webapp.mlflow_api.models import TrackedRun
from webapp.runs.models import Job

ANYBODY = (Token.INGEST, Token.READ, Token.WRITE)
READERS, UPLOADERS = (Token.READ, Token.INGEST), (Token.INGEST,)
EDITORS, WRITERS = (Token.INGEST, Token.WRITE), (Token.WRITE,)


@dataclass(frozen=True)
class Right:
    """Right that a token needs for a method, and the rows that the method touches.

    Attributes:
        touches: the same in words.
        scopes: one of these is enough.
        find: returns what the method touches, by what `names` returns. Raises MlflowError if there
            is no such row, or if it isn't this token's to touch.
        is_upload: the run counts as uploaded to by the token.
    """

    touches: str
    scopes: tuple[str, ...]
    names: Callable[[Arguments], Any]
    find: Callable[[Token, Any], Any]
    is_upload: bool = False


def _nothing(_said: Arguments) -> None:
    """Return no name: a list names no row."""


def _all(rows: Callable[[Token], Any]) -> Callable[[Token, None], Any]:
    return lambda token, _: rows(token)


def _experiment_id(said: Arguments) -> str:
    return said.text("experiment_id")


def _experiment_id_or_default(said: Arguments) -> str:
    return said.text("experiment_id", default=scope.DEFAULT_ID)


def _model_id(said: Arguments) -> str:
    return said.text("id", 40)


def _registered_name(said: Arguments) -> str:
    return said.text("name")


def _version_named(said: Arguments) -> tuple[str, int]:
    return said.text("name"), said.whole_number("version", most=2**31 - 1)


def _source_of_model(said: Arguments) -> UUID | str:
    """Return the run that logs a model, or the experiment if it is logged outside of a run."""
    if "source_run_id" in said:
        return said.run_id_of("source_run_id")
    return _experiment_id_or_default(said)


def _run_or_job(token: Token, named: UUID | str) -> TrackedRun | Job:
    if isinstance(named, UUID):
        return scope.run_by_id(token, named)
    return scope.known_job(token, named)


LIST_JOBS = Right("the jobs that it may read", READERS, _nothing, _all(scope.jobs_of))
LIST_RUNS = Right("the runs that it may read", READERS, _nothing, _all(scope.tracked_runs_of))
LIST_MODELS = Right("models of runs that it may read", READERS, _nothing, _all(scope.models_of))

KNOW_JOB = Right("a job whose id it knows by name", READERS, _experiment_id, scope.known_job)
CALL_JOB = Right(
    "a job by name", READERS, lambda said: said.text("experiment_name"), scope.job_called
)
NEW_JOB = Right("a new job", UPLOADERS, lambda said: said.text("name"), scope.job_called)
CHANGE_JOB = Right("any job", WRITERS, _experiment_id, scope.job_by_id)

NEW_RUN = Right(
    "a new run of a job whose id it knows by name",
    UPLOADERS,
    _experiment_id_or_default,
    scope.known_job,
)
READ_RUN = Right("a run that it may read", READERS, Arguments.run_id, scope.read_run)
UPLOAD = Right(
    "a run whose id it knows: adds to it",
    UPLOADERS,
    Arguments.run_id,
    scope.run_by_id,
    is_upload=True,
)
RESUME = replace(UPLOAD, touches="a run that it may read: continues it", find=scope.resumable_run)
CHANGE_RUN = Right(
    "a run that it uploaded to; with write, any",
    EDITORS,
    Arguments.run_id,
    scope.changeable_run,
)

NEW_MODEL = Right(
    "a run whose id it knows, or a job whose id it knows by name: adds a model",
    UPLOADERS,
    _source_of_model,
    _run_or_job,
)
READ_MODEL = Right("a model of a run that it may read", READERS, _model_id, scope.read_model)
CHANGE_MODEL = Right(
    "a model of a run that it uploaded to; with write, any",
    EDITORS,
    _model_id,
    scope.changeable_model,
)

LIST_REGISTERED = Right(
    "the registered models that it may read", READERS, _nothing, _all(registered.readable_models)
)
LIST_VERSIONS = Right(
    "the model versions that it may read", READERS, _nothing, _all(registered.readable_versions)
)
NEW_REGISTERED = Right("a new registered model", UPLOADERS, _nothing, lambda token, _: None)
READ_REGISTERED = Right(
    "a registered model that it may read", READERS, _registered_name, registered.read_model
)
CHANGE_REGISTERED = Right(
    "a registered model that it made; with write, any",
    EDITORS,
    _registered_name,
    registered.changeable_model,
)
NEW_VERSION = Right(
    "a registered model whose name it knows: adds to it",
    UPLOADERS,
    _registered_name,
    registered.model_called,
)
READ_VERSION = Right(
    "a model version that it may read", READERS, _version_named, registered.read_version
)
CHANGE_VERSION = Right(
    "a model version that it made; with write, any",
    EDITORS,
    _version_named,
    registered.changeable_version,
)

FILES: dict[tuple[str, str], Right] = {
    ("GET", "artifacts"): READ_RUN,
    ("GET", "artifacts/{path}"): READ_RUN,
    ("PUT", "artifacts/{path}"): UPLOAD,
    ("DELETE", "artifacts/{path}"): CHANGE_RUN,
}
"""The rights of the artefact store, whose paths name the run."""
