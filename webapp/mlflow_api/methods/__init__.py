"""The methods of MLflow's REST API, by HTTP method and path.

A method takes what the request says and the token, and returns the answer's document.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from webapp.accounts.models import Token
from webapp.mlflow_api.arguments import Arguments
from webapp.mlflow_api.calling import READERS, WRITERS
from webapp.mlflow_api.methods import experiments, models, reading, runs

Method = Callable[[Token, Arguments], dict[str, Any]]
METHODS: dict[tuple[str, str], tuple[tuple[str, ...], Method]] = {
    ("GET", "experiments/get"): (READERS, experiments.get),
    ("GET", "experiments/get-by-name"): (READERS, experiments.get_by_name),
    ("GET", "experiments/search"): (READERS, experiments.search),
    ("POST", "experiments/search"): (READERS, experiments.search),
    ("POST", "experiments/create"): (WRITERS, experiments.create),
    ("POST", "experiments/set-experiment-tag"): (WRITERS, experiments.set_tag),
    ("POST", "runs/create"): (WRITERS, runs.create),
    ("POST", "runs/update"): (WRITERS, runs.update),
    ("POST", "runs/delete"): (WRITERS, runs.delete),
    ("POST", "runs/restore"): (WRITERS, runs.restore),
    ("POST", "runs/log-metric"): (WRITERS, runs.log_metric),
    ("POST", "runs/log-parameter"): (WRITERS, runs.log_parameter),
    ("POST", "runs/log-batch"): (WRITERS, runs.log_batch),
    ("POST", "runs/log-inputs"): (WRITERS, runs.log_inputs),
    ("POST", "runs/log-model"): (WRITERS, runs.log_model),
    ("POST", "runs/outputs"): (WRITERS, runs.log_outputs),
    ("POST", "runs/set-tag"): (WRITERS, runs.set_tag),
    ("POST", "runs/delete-tag"): (WRITERS, runs.delete_tag),
    ("GET", "runs/get"): (READERS, reading.get),
    ("POST", "runs/search"): (READERS, reading.search),
    ("GET", "metrics/get-history"): (READERS, reading.history),
    ("GET", "artifacts/list"): (READERS, reading.artifacts),
    ("POST", "logged-models"): (WRITERS, models.create),
    ("GET", "logged-models/{id}"): (READERS, models.get),
    ("PATCH", "logged-models/{id}"): (WRITERS, models.finish),
    ("PATCH", "logged-models/{id}/tags"): (WRITERS, models.set_tags),
    ("POST", "logged-models/{id}/params"): (WRITERS, models.log_params),
    ("POST", "logged-models/search"): (READERS, models.search),
}
