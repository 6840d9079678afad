"""Versions of registered models: which files a name stands for."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from django.db.models import QuerySet

from webapp.accounts import audit
from webapp.accounts.models import Token
from webapp.mlflow_api import labels, registered, scope, searching, shown
from webapp.mlflow_api.arguments import Arguments, read_run_id
from webapp.mlflow_api.errors import invalid_parameter
from webapp.mlflow_api.methods.registered_models import canonical_stage
from webapp.mlflow_api.models import ModelVersion, RegisteredModel, TrackedRun
from webapp.mlflow_api.registered import MOST_SOURCE_CHARS, MOST_TEXT_CHARS

_ATTRIBUTES = (
    *("name", "version_number", "run_id", "source_path"),
    *("creation_timestamp", "last_updated_timestamp"),
)
_NO_SOURCE = "Say where the model's files are: 'source' is empty or a local path."


def create(token: Token, model: RegisteredModel, said: Arguments) -> dict[str, Any]:
    """Add a version. Its files are those that a run or logged model has, or are elsewhere."""
    source, tags = said.text("source", MOST_SOURCE_CHARS), registered.new_tags(said)
    is_local = urlsplit(source).scheme in ("", "file") or ".." in source.split("/")
    if is_local and registered.PROMPT not in tags:
        raise invalid_parameter(_NO_SOURCE)
    model_id, tracked, location = _found_source(token, source, said)
    text = said.text("description", MOST_TEXT_CHARS, default="")
    _check_room(token)
    with registered.write_registered(token, model, labels.size(tags) + len(text)) as held:
        held.versions_made += 1
        held.save()
        version = ModelVersion.objects.create(
            registered=held,
            number=held.versions_made,
            tracked=tracked,
            model_id=model_id,
            source=source,
            location=location,
            run_link=said.text("run_link", MOST_SOURCE_CHARS, default=""),
            description=text,
            tags=tags,
            created_by=token,
        )
    return {"model_version": shown.model_version(version)}


def _check_room(token: Token) -> None:
    versions = ModelVersion.objects.filter(registered__workspace=token.workspace)
    if versions.count() >= registered.MOST_VERSIONS:
        raise invalid_parameter(
            f"The workspace has {registered.MOST_VERSIONS} model versions, the maximum. "
            "Delete some."
        )


def _found_source(token: Token, source: str, said: Arguments) -> tuple[str, TrackedRun | None, str]:
    """Return the logged model's id, the run that logged it, and where its files are. Raises
    MlflowError.
    """
    model_id, tracked, location = said.text("model_id", 40, default=""), None, source
    parts = source.removeprefix("models:/").strip("/").split("/")
    if source.startswith("models:/") and len(parts) == 1:
        model_id = model_id or parts[0]
        location = str(shown.model(scope.model_by_id(token, parts[0]))["info"]["artifact_uri"])
    elif source.startswith("models:/"):
        copied = registered.read_version(token, (parts[0], _number(parts[-1])))
        tracked, location = copied.tracked, copied.location
    if model_id:
        tracked = scope.model_by_id(token, model_id).tracked
    if said.text("run_id", 64, default=""):
        tracked = scope.run_by_id(token, read_run_id(said.text("run_id", 64)))
    return model_id, tracked, location


def _number(text: str) -> int:
    if not (text.isdecimal() and len(text) < 10):
        raise invalid_parameter(f"Not the number of a version: '{text[:40]}'.")
    return int(text)


def get(_token: Token, version: ModelVersion, _said: Arguments) -> dict[str, Any]:
    return {"model_version": shown.model_version(version)}


def get_download_uri(_token: Token, version: ModelVersion, _said: Arguments) -> dict[str, Any]:
    return {"artifact_uri": version.location}


def update(token: Token, version: ModelVersion, said: Arguments) -> dict[str, Any]:
    text = said.text("description", MOST_TEXT_CHARS, default="")
    with registered.write_registered(token, version.registered, len(text)) as held:
        version.description, version.updated_at = text, held.updated_at
        version.save(update_fields=["description", "updated_at"])
    return {"model_version": shown.model_version(version)}


def move_to_stage(token: Token, version: ModelVersion, said: Arguments) -> dict[str, Any]:
    """Set the stage of a version. The others in that stage may be archived with it."""
    stage = canonical_stage(said.text("stage"))
    with registered.write_registered(token, version.registered) as held:
        if said.flag("archive_existing_versions"):
            others = held.versions.filter(stage=stage).exclude(pk=version.pk)
            others.update(stage="Archived", updated_at=held.updated_at)
        change = {"stage": (version.stage, stage)}
        version.stage, version.updated_at = stage, held.updated_at
        version.save(update_fields=["stage", "updated_at"])
        audit.record(token.workspace, token, "model_version.staged", str(version), change)
    return {"model_version": shown.model_version(version)}


def delete(token: Token, version: ModelVersion, _said: Arguments) -> dict[str, Any]:
    """Delete a version and its aliases. The files stay with the run that logged them."""
    with registered.write_registered(token, version.registered) as held:
        kept = {alias: n for alias, n in held.aliases.items() if n != version.number}
        held.aliases = kept
        held.save()
        audit.record(token.workspace, token, "model_version.deleted", str(version))
        version.delete()
    return {}


def set_tag(token: Token, version: ModelVersion, said: Arguments) -> dict[str, Any]:
    new = {said.key(): said.value(registered.MOST_TAG_CHARS)}
    with registered.write_registered(token, version.registered, labels.size(new)):
        version.refresh_from_db(fields=["tags"])
        version.tags = registered.checked_tags({**version.tags, **new})
        version.save(update_fields=["tags"])
    return {}


def delete_tag(token: Token, version: ModelVersion, said: Arguments) -> dict[str, Any]:
    with registered.write_registered(token, version.registered):
        version.refresh_from_db(fields=["tags"])
        version.tags.pop(said.key(), None)
        version.save(update_fields=["tags"])
    return {}


def search(token: Token, readable: QuerySet[ModelVersion], said: Arguments) -> dict[str, Any]:
    """Return the versions, the last updated first, unless asked otherwise."""
    conditions = searching.conditions(said.text("filter", 10_000, default=""))
    asked = said.texts("order_by", 20)
    order = searching.order(
        [*asked, "last_updated_timestamp DESC", "name ASC", "version_number DESC"]
    )
    searching.check_attributes(_ATTRIBUTES, conditions, order)
    versions = readable.order_by("pk").iterator(searching.AT_ONCE)
    known = ((version.pk, _facts(version)) for version in versions)
    found = searching.matching_rows(token.workspace_id, known, conditions, order)
    chosen, following = searching.rows_of_page(order.sort(found), said, readable)
    answer: dict[str, Any] = {"model_versions": list(map(shown.model_version, chosen))}
    return answer | following


def _facts(version: ModelVersion) -> searching.Facts:
    attributes = {
        "name": version.registered.name,
        "version_number": version.number,
        "run_id": version.tracked_id.hex if version.tracked_id else None,
        "source_path": version.source,
        "creation_timestamp": version.created_at.timestamp() * 1000,
        "last_updated_timestamp": version.updated_at.timestamp() * 1000,
    }
    return {"attributes": attributes, "tags": version.tags}
