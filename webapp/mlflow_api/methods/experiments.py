"""Experiments: jobs, under the names that programs give them."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from trimtab.wire import LIMITS

from webapp.accounts.models import Token
from webapp.mlflow_api import scope, searching, shown
from webapp.mlflow_api.arguments import MOST_TAG_CHARS, Arguments
from webapp.mlflow_api.errors import MlflowError, invalid, missing
from webapp.runs import locks, registration
from webapp.runs.models import Job

MOST_FOUND = 50_000


def get(token: Token, said: Arguments) -> dict[str, Any]:
    return {"experiment": shown.experiment(of_id(token, said.text("experiment_id")))}


def get_by_name(token: Token, said: Arguments) -> dict[str, Any]:
    name = said.text("experiment_name")
    job = scope.experiment_called(token.workspace, name)
    if job is None and name == scope.DEFAULT_NAME:
        job = of_id(token, scope.DEFAULT_ID)
    if job is None:
        raise missing(f"Could not find experiment with name '{name}'")
    return {"experiment": shown.experiment(job)}


def create(token: Token, said: Arguments) -> dict[str, Any]:
    name = said.text("name", LIMITS.name_chars)
    if not name.strip():
        raise invalid("An experiment needs a name.")
    if scope.experiment_called(token.workspace, name):
        raise MlflowError("RESOURCE_ALREADY_EXISTS", f"Experiment '{name}' already exists.")
    with transaction.atomic():
        job = registration.job(token.workspace, name)
    return {"experiment_id": shown.experiment_id(job)}


def set_tag(token: Token, said: Arguments) -> dict[str, Any]:
    """A default of the job's runs, but for MLflow's own tags, which nobody reads here."""
    job = of_id(token, said.text("experiment_id"))
    key, value = said.key(), said.value(MOST_TAG_CHARS)
    if key.startswith("mlflow."):
        return {}
    with transaction.atomic():
        held = locks.job(job.pk)
        held.tags = {**held.tags, key[: LIMITS.name_chars]: value[: LIMITS.name_chars]}
        held.save(update_fields=["tags"])
    return {}


def search(token: Token, said: Arguments) -> dict[str, Any]:
    """Filtered and sorted as runs are."""
    jobs = scope.experiments_of(token)
    conditions = searching.conditions(said.text("filter", 10_000, default=""))
    order = searching.order(said.texts("order_by", 20)) or searching.order(["creation_time DESC"])
    known = ((job, _facts(job)) for job in jobs.order_by("pk")[:MOST_FOUND])
    found = [(job, order.values(facts)) for job, facts in known if conditions.hold(facts)]
    chosen, following = searching.page(order.sorted(found), said)
    answer: dict[str, Any] = {"experiments": [shown.experiment(job) for job in chosen]}
    return answer | following


def of_id(token: Token, experiment_id: str) -> Job:
    """The job; the default one is made when it is first asked for. Raises MlflowError."""
    job = scope.experiment(token.workspace, experiment_id)
    if job is None and experiment_id == scope.DEFAULT_ID:
        with transaction.atomic():
            return registration.job(token.workspace, scope.DEFAULT_NAME)
    if job is None:
        raise missing(f"No Experiment with id={experiment_id[:80]} exists")
    return job


def _facts(job: Job) -> searching.Facts:
    created_ms = job.created_at.timestamp() * 1000
    return {
        "attributes": {
            "name": job.name,
            "experiment_id": shown.experiment_id(job),
            "creation_time": created_ms,
            "last_update_time": created_ms,
        },
        "tags": job.tags,
    }
