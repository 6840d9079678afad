"""Experiments: jobs, under the names that programs give them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from trimtab.wire import LIMITS

from webapp.accounts import audit
from webapp.accounts.models import Token
from webapp.mlflow_api import labels, scope, searching, shown
from webapp.mlflow_api.arguments import MOST_TAG_CHARS, Arguments
from webapp.mlflow_api.errors import MlflowError, invalid_parameter, missing_resource
from webapp.mlflow_api.models import DeletedExperiment
from webapp.runs import locks, registration
from webapp.runs.editing import jobs
from webapp.runs.models import Job

MOST_FOUND = 50_000
_ATTRIBUTES = ("name", "experiment_id", "creation_time", "last_update_time")
_DELETED = Q(mlflow_deletion__isnull=False)
_VIEWS = {"ACTIVE_ONLY": ~_DELETED, "DELETED_ONLY": _DELETED, "ALL": Q()}


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
    tags = _job_tags(labels.tags(said))
    with transaction.atomic():
        made = registration.make_job(token.workspace, name)
        if tags and not made.runs_made:
            labels.check_shown(tags)
            jobs.edit(made, token, {"tags": tags})
    return {"experiment_id": shown.experiment_id(made)}


def _job_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Return tags as jobs have them, but for MLflow's own, which nobody reads here."""
    short = LIMITS.name_chars
    return {
        key[:short]: value[:short] for key, value in tags.items() if not key.startswith("mlflow.")
    }


def rename(token: Token, job: Job, said: Arguments) -> dict[str, Any]:
    """Rename the job, as its page does: the earlier name keeps finding it."""
    name = said.text("new_name", LIMITS.name_chars)
    if not name.strip():
        raise invalid_parameter("An experiment needs a name: 'new_name' is empty.")
    try:
        jobs.edit(scope.check_active(job), token, {"name": name})
    except jobs.NameTakenError as error:
        raise MlflowError("BAD_REQUEST", str(error)) from None
    return {}


def delete(token: Token, job: Job, _said: Arguments) -> dict[str, Any]:
    """Hide the experiment and its runs from clients."""
    with transaction.atomic():
        held = locks.job(job.pk)
        if scope.is_deleted(held):
            raise missing_resource(f"No active experiment with id={shown.experiment_id(held)}")
        DeletedExperiment.objects.create(job=held)
        audit.record(held.workspace, token, "mlflow_experiment.deleted", held.name)
    return {}


def restore(token: Token, job: Job, _said: Arguments) -> dict[str, Any]:
    with transaction.atomic():
        held = locks.job(job.pk)
        if not scope.is_deleted(held):
            raise missing_resource(f"No deleted experiment with id={shown.experiment_id(held)}")
        DeletedExperiment.objects.filter(job=held).delete()
        audit.record(held.workspace, token, "mlflow_experiment.restored", held.name)
    return {}


def delete_tag(token: Token, job: Job, said: Arguments) -> dict[str, Any]:
    key = said.key()
    with transaction.atomic():
        held = locks.job(scope.check_active(job).pk)
        if key not in held.tags:
            raise missing_resource(
                f"No tag with name: {key} in experiment with id {shown.experiment_id(held)}"
            )
        kept = {name: value for name, value in held.tags.items() if name != key}
        jobs.edit(held, token, {"tags": kept})
    return {}


def set_tag(token: Token, job: Job, said: Arguments) -> dict[str, Any]:
    """Set a default of the job's runs, but for MLflow's own tags, which nobody reads here."""
    new = _job_tags({said.key(): said.value(MOST_TAG_CHARS)})
    with transaction.atomic():
        held = locks.job(scope.check_active(job).pk)
        wanted = {**held.tags, **new}
        labels.check_shown(wanted)
        jobs.edit(held, token, {"tags": wanted})
    return {}


def search(token: Token, readable: QuerySet[Job], said: Arguments) -> dict[str, Any]:
    """Return the jobs, filtered and sorted as runs are."""
    conditions = searching.conditions(said.text("filter", 10_000, default=""))
    order = searching.order(said.texts("order_by", 20)) or searching.order(["creation_time DESC"])
    searching.check_attributes(_ATTRIBUTES, conditions, order)
    view = _VIEWS.get(said.text("view_type", default="ACTIVE_ONLY"))
    if view is None:
        raise invalid_parameter("Invalid view_type: ACTIVE_ONLY, DELETED_ONLY or ALL.")
    known = ((job, _facts(job)) for job in readable.filter(view).order_by("pk")[:MOST_FOUND])
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
