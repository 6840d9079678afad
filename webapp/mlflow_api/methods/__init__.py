"""The methods of MLflow's REST API, by HTTP method and path.

What isn't in the table can't be called. A method takes the token, what its right found, and what
the request says, and returns the answer's document.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from webapp.accounts.models import Token
from webapp.ingest import uploaders
from webapp.mlflow_api import rights
from webapp.mlflow_api.arguments import Arguments
from webapp.mlflow_api.methods import (
    experiments,
    model_versions,
    models,
    reading,
    registered_models,
    runs,
)
from webapp.mlflow_api.rights import Right


@dataclass(frozen=True)
class Method:
    """A method, and the right that it needs."""

    right: Right
    call: Callable[[Token, Any, Arguments], dict[str, Any]]

    def __call__(self, token: Token, said: Arguments) -> dict[str, Any]:
        found = self.right.find(token, self.right.names(said))
        document = self.call(token, found, said)
        if self.right.is_upload:
            uploaders.remember_uploader(token, found.pk)
        return document


METHODS: dict[tuple[str, str], Method] = {
    ("GET", "experiments/get"): Method(rights.KNOW_JOB, experiments.get),
    ("GET", "experiments/get-by-name"): Method(rights.CALL_JOB, experiments.get_by_name),
    ("GET", "experiments/search"): Method(rights.LIST_JOBS, experiments.search),
    ("POST", "experiments/search"): Method(rights.LIST_JOBS, experiments.search),
    ("POST", "experiments/create"): Method(rights.NEW_JOB, experiments.create),
    ("POST", "experiments/set-experiment-tag"): Method(rights.CHANGE_JOB, experiments.set_tag),
    ("POST", "experiments/delete-experiment-tag"): Method(
        rights.CHANGE_JOB, experiments.delete_tag
    ),
    ("POST", "experiments/update"): Method(rights.CHANGE_JOB, experiments.rename),
    ("POST", "experiments/delete"): Method(rights.CHANGE_JOB, experiments.delete),
    ("POST", "experiments/restore"): Method(rights.CHANGE_JOB, experiments.restore),
    ("POST", "runs/create"): Method(rights.NEW_RUN, runs.create),
    ("POST", "runs/update"): Method(rights.RESUME, runs.update),
    ("POST", "runs/delete"): Method(rights.CHANGE_RUN, runs.delete),
    ("POST", "runs/restore"): Method(rights.CHANGE_RUN, runs.restore),
    ("POST", "runs/log-metric"): Method(rights.UPLOAD, runs.log_metric),
    ("POST", "runs/log-parameter"): Method(rights.UPLOAD, runs.log_parameter),
    ("POST", "runs/log-batch"): Method(rights.UPLOAD, runs.log_batch),
    ("POST", "runs/log-inputs"): Method(rights.UPLOAD, runs.log_inputs),
    ("POST", "runs/log-model"): Method(rights.UPLOAD, runs.log_model),
    ("POST", "runs/outputs"): Method(rights.UPLOAD, runs.log_outputs),
    ("POST", "runs/set-tag"): Method(rights.CHANGE_RUN, runs.set_tag),
    ("POST", "runs/delete-tag"): Method(rights.CHANGE_RUN, runs.delete_tag),
    ("GET", "runs/get"): Method(rights.READ_RUN, reading.get),
    ("POST", "runs/search"): Method(rights.LIST_RUNS, reading.search),
    ("GET", "metrics/get-history"): Method(rights.READ_RUN, reading.history),
    ("GET", "artifacts/list"): Method(rights.READ_RUN, reading.artifacts),
    ("POST", "logged-models"): Method(rights.NEW_MODEL, models.create),
    ("GET", "logged-models/{id}"): Method(rights.READ_MODEL, models.get),
    ("PATCH", "logged-models/{id}"): Method(rights.CHANGE_MODEL, models.finish_model),
    ("PATCH", "logged-models/{id}/tags"): Method(rights.CHANGE_MODEL, models.set_tags),
    ("DELETE", "logged-models/{id}"): Method(rights.CHANGE_MODEL, models.delete),
    ("DELETE", "logged-models/{id}/tags/{key}"): Method(rights.CHANGE_MODEL, models.delete_tag),
    ("POST", "logged-models/{id}/params"): Method(rights.CHANGE_MODEL, models.log_params),
    ("POST", "registered-models/create"): Method(rights.NEW_REGISTERED, registered_models.create),
    ("GET", "registered-models/get"): Method(rights.READ_REGISTERED, registered_models.get),
    ("GET", "registered-models/search"): Method(rights.LIST_REGISTERED, registered_models.search),
    ("POST", "registered-models/rename"): Method(
        rights.CHANGE_REGISTERED, registered_models.rename
    ),
    ("PATCH", "registered-models/update"): Method(
        rights.CHANGE_REGISTERED, registered_models.update
    ),
    ("DELETE", "registered-models/delete"): Method(
        rights.CHANGE_REGISTERED, registered_models.delete
    ),
    ("GET", "registered-models/get-latest-versions"): Method(
        rights.READ_REGISTERED, registered_models.get_latest
    ),
    ("POST", "registered-models/get-latest-versions"): Method(
        rights.READ_REGISTERED, registered_models.get_latest
    ),
    ("POST", "registered-models/set-tag"): Method(
        rights.CHANGE_REGISTERED, registered_models.set_tag
    ),
    ("DELETE", "registered-models/delete-tag"): Method(
        rights.CHANGE_REGISTERED, registered_models.delete_tag
    ),
    ("POST", "registered-models/alias"): Method(
        rights.CHANGE_REGISTERED, registered_models.set_alias
    ),
    ("DELETE", "registered-models/alias"): Method(
        rights.CHANGE_REGISTERED, registered_models.delete_alias
    ),
    ("GET", "registered-models/alias"): Method(
        rights.READ_REGISTERED, registered_models.get_by_alias
    ),
    ("POST", "model-versions/create"): Method(rights.NEW_VERSION, model_versions.create),
    ("GET", "model-versions/get"): Method(rights.READ_VERSION, model_versions.get),
    ("GET", "model-versions/search"): Method(rights.LIST_VERSIONS, model_versions.search),
    ("GET", "model-versions/get-download-uri"): Method(
        rights.READ_VERSION, model_versions.get_download_uri
    ),
    ("PATCH", "model-versions/update"): Method(rights.CHANGE_VERSION, model_versions.update),
    ("DELETE", "model-versions/delete"): Method(rights.CHANGE_VERSION, model_versions.delete),
    ("POST", "model-versions/transition-stage"): Method(
        rights.CHANGE_VERSION, model_versions.move_to_stage
    ),
    ("POST", "model-versions/set-tag"): Method(rights.CHANGE_VERSION, model_versions.set_tag),
    ("DELETE", "model-versions/delete-tag"): Method(
        rights.CHANGE_VERSION, model_versions.delete_tag
    ),
    ("POST", "logged-models/search"): Method(rights.LIST_MODELS, models.search),
}
