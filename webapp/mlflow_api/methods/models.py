"""Logged models: what autologging tells of a model, beside its files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from django.db import transaction
from django.db.models import QuerySet

from webapp.accounts.models import Token
from webapp.ingest import uploaders
from webapp.mlflow_api import changing, labels, scope, searching, shown
from webapp.mlflow_api.arguments import Arguments
from webapp.mlflow_api.errors import invalid_parameter, missing_resource
from webapp.mlflow_api.methods import runs
from webapp.mlflow_api.models import LoggedModel, TrackedRun
from webapp.runs.models import Job

MOST_OF_A_RUN, MOST_EXPERIMENTS, MOST_SEARCHED = 1_000, 1_000, 10_000
MOST_CLAUSES = 20
_ATTRIBUTES = (
    *("name", "model_id", "model_type", "status", "source_run_id"),
    *("creation_timestamp", "last_updated_timestamp"),
)
_ORDERED = {"creation_time": "creation_timestamp"}
STATUSES = (
    "LOGGED_MODEL_STATUS_UNSPECIFIED",
    "LOGGED_MODEL_PENDING",
    "LOGGED_MODEL_READY",
    "LOGGED_MODEL_UPLOAD_FAILED",
)


def create(token: Token, source: TrackedRun | Job, said: Arguments) -> dict[str, Any]:
    """Add a model to a run. A model that is logged outside of a run gets one of its own, because
    files belong to runs.
    """
    tracked = source if isinstance(source, TrackedRun) else _run_of_its_own(token, source, said)
    if tracked.logged_models.count() >= MOST_OF_A_RUN:
        raise invalid_parameter(f"The run has {MOST_OF_A_RUN} logged models, the maximum.")
    model = LoggedModel.objects.create(
        id=f"m-{uuid4().hex}",
        tracked=tracked,
        name=_name(said),
        kind=said.text("model_type", 250, default=""),
        params=labels.params(said),
        tags=labels.tags(said),
    )
    uploaders.remember_uploader(token, tracked.pk)
    return {"model": shown.model(model)}


def _run_of_its_own(token: Token, job: Job, said: Arguments) -> TrackedRun:
    return runs.begin_ended_run(token, job, _name(said))


def _name(said: Arguments) -> str:
    return said.text("name", default="") or "model"


def get(_token: Token, model: LoggedModel, _said: Arguments) -> dict[str, Any]:
    return {"model": shown.model(model)}


def finish_model(_token: Token, named: LoggedModel, said: Arguments) -> dict[str, Any]:
    status = said.text("status")
    if status not in STATUSES:
        raise invalid_parameter(f"Invalid status '{status[:40]}'.")
    with transaction.atomic():
        model = _locked(named)
        model.status = status
        model.save()
    return {"model": shown.model(model)}


def set_tags(_token: Token, named: LoggedModel, said: Arguments) -> dict[str, Any]:
    new = labels.tags(said)
    with transaction.atomic():
        model = _locked(named)
        model.tags = labels.check_labels("tags of the model", {**model.tags, **new})
        model.save()
    return {"model": shown.model(model)}


def delete_tag(_token: Token, named: LoggedModel, said: Arguments) -> dict[str, Any]:
    key = said.key()
    with transaction.atomic():
        model = _locked(named)
        if model.tags.pop(key, None) is None:
            raise missing_resource(f"No tag with key '{key}' in the logged model {model.pk}.")
        model.save()
    return {}


def delete(token: Token, model: LoggedModel, _said: Arguments) -> dict[str, Any]:
    """Forget the model and the paths of its files. Their content stays with the run."""
    with transaction.atomic():
        _locked(model)
        changing.remove(token, model.tracked, model.tracked.files.filter(model=model.pk))
        model.delete()
    return {}


def log_params(_token: Token, named: LoggedModel, said: Arguments) -> dict[str, Any]:
    new = labels.params(said)
    with transaction.atomic():
        model = _locked(named)
        model.params = labels.check_labels("parameters of the model", {**model.params, **new})
        model.save()
    return {}


def search(token: Token, readable: QuerySet[LoggedModel], said: Arguments) -> dict[str, Any]:
    """Return the models of the experiments, the newest first; `filter` may ask for the name and for
    tags.
    """
    ids = said.texts("experiment_ids", MOST_EXPERIMENTS)
    jobs = [scope.experiment(token.workspace, each) for each in ids]
    models = readable.filter(tracked__experiment__in=[job for job in jobs if job])
    conditions = searching.conditions(said.text("filter", 10_000, default=""))
    newest = models.order_by("-created_at", "pk")[:MOST_SEARCHED].iterator(searching.AT_ONCE)
    known = ((model.pk, _facts(model)) for model in newest)
    order = searching.order(list(_order_clauses(said)))
    searching.check_attributes(_ATTRIBUTES, conditions, order)
    found = searching.matching_rows(token.workspace_id, known, conditions, order)
    rows, following = searching.rows_of_page(order.sort(found), said, models)
    answer: dict[str, Any] = {"models": [shown.model(row) for row in rows]}
    return answer | following


def _order_clauses(said: Arguments) -> Iterator[str]:
    """Yield the order as searches of runs write it."""
    for clause in said.parts("order_by", MOST_CLAUSES):
        name = clause.text("field_name")
        is_up = clause.flag("ascending") if "ascending" in clause else True
        yield f"{_ORDERED.get(name, name)} {'ASC' if is_up else 'DESC'}"


def _locked(model: LoggedModel) -> LoggedModel:
    """Return the row as it is now, locked until the transaction ends."""
    held = LoggedModel.objects.select_for_update(of=("self",), no_key=True)
    return held.select_related("tracked__experiment").get(pk=model.pk)


def _facts(model: LoggedModel) -> searching.Facts:
    attributes = {
        "name": model.name,
        "model_id": model.pk,
        "model_type": model.kind,
        "status": model.status,
        "source_run_id": model.tracked_id.hex,
        "creation_timestamp": model.created_at.timestamp() * 1000,
        "last_updated_timestamp": model.updated_at.timestamp() * 1000,
    }
    return {"attributes": attributes, "params": model.params, "tags": model.tags}
