"""Methods by which clients read runs again."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet

from advisor.store.room import RoomExceededError
from webapp.accounts.models import Token
from webapp.mlflow_api import files, scope, searching, shown
from webapp.mlflow_api import history as histories
from webapp.mlflow_api.arguments import Arguments
from webapp.mlflow_api.errors import invalid_parameter
from webapp.mlflow_api.models import TrackedRun

MOST_EXPERIMENTS, MOST_SEARCHED = 1_000, 20_000
MOST_POINTS_A_PAGE = 25_000
_CONTEXT = "mlflow.data.context"
_ATTRIBUTES = (
    *("run_id", "run_name", "status", "user_id", "start_time", "end_time"),
    *("artifact_uri", "experiment_id", "lifecycle_stage"),
)
_DELETED = Q(is_deleted=True) | Q(experiment__mlflow_deletion__isnull=False)
_VIEWS = {"ACTIVE_ONLY": ~_DELETED, "DELETED_ONLY": _DELETED, "ALL": Q()}


def get(_token: Token, tracked: TrackedRun, _said: Arguments) -> dict[str, Any]:
    return {"run": shown.run(tracked)}


def search(token: Token, readable: QuerySet[TrackedRun], said: Arguments) -> dict[str, Any]:
    """Return the runs, the newest first, unless asked otherwise. Older ones than `MOST_SEARCHED`
    aren't found.
    """
    view = _VIEWS.get(said.text("run_view_type", default="ACTIVE_ONLY"))
    if view is None:
        raise invalid_parameter("Invalid run_view_type.")
    ids = said.texts("experiment_ids", MOST_EXPERIMENTS)
    jobs = [scope.experiment(token.workspace, each) for each in ids]
    runs = readable.filter(view, experiment__in=[job for job in jobs if job])
    conditions = searching.conditions(said.text("filter", 10_000, default=""))
    order = searching.order(said.texts("order_by", 20))
    searching.check_attributes(_ATTRIBUTES, conditions, order)
    # Runs may have many metrics: all are read, but only those of the page are held.
    newest = runs.order_by("-started_ms", "pk")[:MOST_SEARCHED].iterator(searching.AT_ONCE)
    known = ((tracked.pk, _facts(tracked)) for tracked in newest)
    found = searching.matching_rows(token.workspace_id, known, conditions, order)
    rows, following = searching.rows_of_page(order.sort(found), said, runs)
    answer: dict[str, Any] = {"runs": [shown.run(row) for row in rows]}
    return answer | following


def _facts(tracked: TrackedRun) -> searching.Facts:
    attributes = shown.info(tracked)
    attributes["end_time"] = tracked.ended_ms
    return {
        "attributes": attributes,
        "metrics": {key: float(value) for key, (value, _, _) in tracked.latest.items()},
        "params": tracked.params,
        "tags": shown.all_tags(tracked),
        "datasets": _datasets(tracked),
    }


def _datasets(tracked: TrackedRun) -> dict[str, list[str]]:
    """Return the names, digests and contexts of the run's datasets."""
    named = [each["dataset"] for each in tracked.inputs]
    tags = [tag for each in tracked.inputs for tag in each["tags"]]
    return {
        "name": [each.get("name", "") for each in named],
        "digest": [each.get("digest", "") for each in named],
        "context": [tag["value"] for tag in tags if tag["key"] == _CONTEXT],
    }


def history(_token: Token, tracked: TrackedRun, said: Arguments) -> dict[str, Any]:
    """Return all values of a metric, in the order of their times."""
    try:
        points = histories.points(tracked, said.text("metric_key"))
    except RoomExceededError as error:
        raise invalid_parameter(f"The run has {error}.") from None
    chosen, following = searching.page(points, said, MOST_POINTS_A_PAGE)
    answer: dict[str, Any] = {"metrics": list(chosen)}
    return answer | following


def artifacts(_token: Token, tracked: TrackedRun, said: Arguments) -> dict[str, Any]:
    """Return the paths below the root of the run's artefacts."""
    path = files.check_path(said.text("path", default=""), may_be_empty=True)
    listed = files.list_folder(tracked, "", path)
    for each in listed:
        each["path"] = f"{path}/{each['path']}" if path else each["path"]
    return {"root_uri": shown.artifact_uri(tracked), "files": listed}
