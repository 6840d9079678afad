"""Registered models: the names under which versions of models are kept."""

from __future__ import annotations

import re
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from webapp.accounts import audit
from webapp.accounts.models import Token
from webapp.mlflow_api import registered, searching, shown
from webapp.mlflow_api.arguments import Arguments
from webapp.mlflow_api.errors import MlflowError, invalid_parameter, missing_resource
from webapp.mlflow_api.models import RegisteredModel
from webapp.mlflow_api.registered import MOST_TEXT_CHARS, STAGES

_ATTRIBUTES = ("name", "creation_timestamp", "last_updated_timestamp")
_ALIAS = re.compile(r"[\w\-]{1,255}\Z")
_NUMBERED = re.compile(r"[vV]\d+\Z")


def create(token: Token, _: None, said: Arguments) -> dict[str, Any]:
    model = RegisteredModel(
        workspace=token.workspace,
        name=registered.model_name(said),
        description=said.text("description", MOST_TEXT_CHARS, default=""),
        tags=registered.new_tags(said),
        created_by=token,
    )
    registered.check_room(token)
    _save_name(model)
    return _answer(token, model)


def _answer(token: Token, model: RegisteredModel) -> dict[str, Any]:
    newest = registered.newest_versions(token, model)
    return {"registered_model": shown.registered_model(model, newest)}


def _save_name(model: RegisteredModel) -> None:
    """Save the model. Raises MlflowError if its name is taken."""
    try:
        with transaction.atomic():
            model.save()
    except IntegrityError:
        raise MlflowError(
            "RESOURCE_ALREADY_EXISTS", f"Registered Model (name={model.name}) already exists."
        ) from None


def get(token: Token, model: RegisteredModel, _said: Arguments) -> dict[str, Any]:
    return _answer(token, model)


def rename(token: Token, model: RegisteredModel, said: Arguments) -> dict[str, Any]:
    name = registered.model_name(said, "new_name")
    with registered.write_registered(token, model) as held:
        change = {"name": (held.name, name)}
        held.name = name
        _save_name(held)
        audit.record(token.workspace, token, "registered_model.renamed", name, change)
    return _answer(token, held)


def update(token: Token, model: RegisteredModel, said: Arguments) -> dict[str, Any]:
    text = said.text("description", MOST_TEXT_CHARS, default="")
    with registered.write_registered(token, model, len(text)) as held:
        held.description = text
        held.save()
    return _answer(token, held)


def delete(token: Token, model: RegisteredModel, _said: Arguments) -> dict[str, Any]:
    """Delete the name and its versions. The files stay with the runs that logged them."""
    with registered.write_registered(token, model) as held:
        change = {"versions": (held.versions.count(), 0)}
        audit.record(token.workspace, token, "registered_model.deleted", held.name, change)
        held.delete()
    return {}


def search(token: Token, readable: QuerySet[RegisteredModel], said: Arguments) -> dict[str, Any]:
    """Return the models by name, unless asked otherwise; `filter` may ask for the name and for
    tags.
    """
    conditions = searching.conditions(said.text("filter", 10_000, default=""))
    order = searching.order([*said.texts("order_by", 20), "name ASC"])
    searching.check_attributes(_ATTRIBUTES, conditions, order)
    models = readable.order_by("pk").iterator(searching.AT_ONCE)
    known = ((model.pk, _facts(model)) for model in models)
    found = searching.matching_rows(token.workspace_id, known, conditions, order)
    chosen, following = searching.rows_of_page(order.sort(found), said, readable)
    rows = [_answer(token, model)["registered_model"] for model in chosen]
    answer: dict[str, Any] = {"registered_models": rows}
    return answer | following


def _facts(model: RegisteredModel) -> searching.Facts:
    attributes = {
        "name": model.name,
        "creation_timestamp": model.created_at.timestamp() * 1000,
        "last_updated_timestamp": model.updated_at.timestamp() * 1000,
    }
    return {"attributes": attributes, "tags": {registered.PROMPT: "false", **model.tags}}


def get_latest(token: Token, model: RegisteredModel, said: Arguments) -> dict[str, Any]:
    """Return the newest version of each stage."""
    stages = [canonical_stage(each) for each in said.texts("stages", len(STAGES))]
    newest = registered.newest_versions(token, model)
    wanted = stages or STAGES
    shown_versions = [shown.model_version(each) for each in newest if each.stage in wanted]
    return {"model_versions": shown_versions}


def canonical_stage(said: str) -> str:
    """Return the stage as MLflow writes it. Raises MlflowError."""
    for stage in STAGES:
        if stage.lower() == said.lower():
            return stage
    raise invalid_parameter(
        f"Invalid Model Version stage: {said[:40]}. Value must be one of {', '.join(STAGES)}."
    )


def set_tag(token: Token, model: RegisteredModel, said: Arguments) -> dict[str, Any]:
    new = {said.key(): said.value(registered.MOST_TAG_CHARS)}
    with registered.write_registered(token, model, sum(map(len, new.values()))) as held:
        held.tags = registered.checked_tags({**held.tags, **new})
        held.save()
    return {}


def delete_tag(token: Token, model: RegisteredModel, said: Arguments) -> dict[str, Any]:
    with registered.write_registered(token, model) as held:
        held.tags.pop(said.key(), None)
        held.save()
    return {}


def set_alias(token: Token, model: RegisteredModel, said: Arguments) -> dict[str, Any]:
    alias, number = said.text("alias"), said.whole_number("version")
    if not _ALIAS.match(alias) or _NUMBERED.match(alias) or alias.lower() == "latest":
        raise invalid_parameter(
            f"Invalid alias name: '{alias[:80]}'. It may only have letters, digits, underscores "
            "and dashes, and 'latest' and names such as 'v1' are reserved."
        )
    with registered.write_registered(token, model) as held:
        if not held.versions.filter(number=number).exists():
            raise missing_resource(f"Model Version (name={held.name}, version={number}) not found")
        if len({*held.aliases, alias}) > registered.MOST_ALIASES:
            raise invalid_parameter(
                f"The model has {registered.MOST_ALIASES} aliases, the maximum. Delete some."
            )
        change = {alias: (held.aliases.get(alias), number)}
        held.aliases[alias] = number
        held.save()
        audit.record(token.workspace, token, "registered_model.alias_set", held.name, change)
    return {}


def delete_alias(token: Token, model: RegisteredModel, said: Arguments) -> dict[str, Any]:
    alias = said.text("alias")
    with registered.write_registered(token, model) as held:
        number = held.aliases.pop(alias, None)
        if number is not None:
            held.save()
            change = {alias: (number, None)}
            audit.record(
                token.workspace, token, "registered_model.alias_deleted", held.name, change
            )
    return {}


def get_by_alias(token: Token, model: RegisteredModel, said: Arguments) -> dict[str, Any]:
    alias = said.text("alias")
    number = model.aliases.get(alias)
    if number is None:
        raise invalid_parameter(f"Registered model alias {alias[:80]} not found.")
    version = registered.read_version(token, (model.name, number))
    return {"model_version": shown.model_version(version)}
