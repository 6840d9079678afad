"""Experiments: jobs, under the names that programs give them."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from trimtab.wire import LIMITS

from webapp.accounts.models import Token
from webapp.mlflow_api import labels, scope, searching, shown
from webapp.mlflow_api.arguments import MOST_TAG_CHARS, Arguments
from webapp.mlflow_api.errors import MlflowError, invalid_parameter, missing_resource
from webapp.runs import locks, registration
from webapp.runs.editing import jobs
from webapp.runs.models import Job

MOST_FOUND = 50_000


def get(token: Token, job: Job, _said: Arguments) -> dict[str, Any]:
    return {"experiment": _document(token, job, job.key)}


def get_by_name(token: Token, job: Job | None, said: Arguments) -> dict[str, Any]:
    name = said.text("experiment_name")
    if job is None:
        raise missing_resource(f"Could not find experiment with name '{name}'")
    return {"experiment": _document(token, job, name)}


def _document(token: Token, job: Job, known_name: str) -> dict[str, Any]:
    """Return the experiment. A token that may only upload knows a job without a run of its own by
    name alone.
    """
    is_read = scope.may_read_job(token, job)
    return shown.experiment(job) if is_read else shown.named_experiment(job, known_name)


def create(token: Token, job: Job | None, said: Arguments) -> dict[str, Any]:
    name = said.text("name", LIMITS.name_chars)
    if not name.strip():
        raise invalid_parameter("An experiment needs a name.")
    if job is not None and not job._state.adding:
        raise MlflowError("RESOURCE_ALREADY_EXISTS", f"Experiment '{name}' already exists.")
    with transaction.atomic():
        made = registration.make_job(token.workspace, name)
    return {"experiment_id": shown.experiment_id(made)}


def set_tag(token: Token, job: Job, said: Arguments) -> dict[str, Any]:
    """Set a default of the job's runs, but for MLflow's own tags, which nobody reads here."""
    key, value = said.key(), said.value(MOST_TAG_CHARS)
    if key.startswith("mlflow."):
        return {}
    with transaction.atomic():
        held = locks.job(job.pk)
        wanted = {**held.tags, key[: LIMITS.name_chars]: value[: LIMITS.name_chars]}
        labels.check_shown(wanted)
        jobs.edit(held, token, {"tags": wanted})
    return {}


def search(token: Token, readable: QuerySet[Job], said: Arguments) -> dict[str, Any]:
    """Return the jobs, filtered and sorted as runs are."""
    conditions = searching.conditions(said.text("filter", 10_000, default=""))
    order = searching.order(said.texts("order_by", 20)) or searching.order(["creation_time DESC"])
    known = ((job, _facts(job)) for job in readable.order_by("pk")[:MOST_FOUND])
    found = searching.matching_rows(token.workspace_id, known, conditions, order)
    chosen, following = searching.page(order.sort(found), said)
    answer: dict[str, Any] = {"experiments": [shown.experiment(job) for job in chosen]}
    return answer | following


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
