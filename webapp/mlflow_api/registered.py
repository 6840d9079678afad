"""The registered models of a workspace and their versions: which a token may read or change.

A name isn't secret, as an experiment's isn't: a token that uploads may add a version to any model
whose name it knows. Reading and changing need more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from webapp.accounts.models import Token
from webapp.mlflow_api import labels
from webapp.mlflow_api.arguments import Arguments
from webapp.mlflow_api.errors import MlflowError, invalid_parameter, missing_resource
from webapp.mlflow_api.models import ModelVersion, RegisteredModel
from webapp.quotas import admission
from webapp.quotas.amounts import UploadAmounts

MOST_MODELS, MOST_VERSIONS = 1_000, 20_000
"""The most registered models of a workspace, and the most versions of all of them."""
MOST_NAME_CHARS, MOST_TEXT_CHARS, MOST_SOURCE_CHARS = 256, 5_000, 500
MOST_TAGS, MOST_TAG_CHARS, MOST_ALIASES = 100, 100_000, 100
"""The most tags of a model or version, their characters together, and the most aliases of a
model."""
PROMPT = "mlflow.prompt.is_prompt"
"""The tag of prompts, which clients keep as registered models. Their text is in a tag, too."""
STAGES = ("None", "Staging", "Production", "Archived")
_WRITTEN_BYTES = 1_000
"""The approximate size of a row and of its entry in the history."""
_NO_RUN = UUID(int=0)


def model_name(said: Arguments, field: str = "name") -> str:
    """Return a name for a registered model. Raises MlflowError."""
    name = said.text(field, MOST_NAME_CHARS)
    if not name.strip() or "/" in name or ":" in name or name in (".", ".."):
        raise invalid_parameter(
            f"Invalid model name '{name[:80]}' in '{field}': it must not be empty, nor have '/' or "
            "':'."
        )
    return name


def readable_models(token: Token) -> QuerySet[RegisteredModel]:
    """Return the models of the workspace; those that it made for a token that may only upload."""
    models = RegisteredModel.objects.filter(workspace=token.workspace)
    return models if token.allows(Token.READ) else models.filter(created_by=token)


def newest_versions(token: Token, model: RegisteredModel) -> list[ModelVersion]:
    """Return the newest version of each stage, of those that the token may read."""
    versions = readable_versions(token).filter(registered=model)
    named = versions.order_by("number").values_list("stage", "pk")
    return list(versions.filter(pk__in=dict(named).values()).order_by("number"))


def readable_versions(token: Token) -> QuerySet[ModelVersion]:
    versions = ModelVersion.objects.filter(registered__workspace=token.workspace)
    versions = versions.select_related("registered", "tracked")
    return versions if token.allows(Token.READ) else versions.filter(created_by=token)


def read_model(token: Token, name: str) -> RegisteredModel:
    """Return a model that the token may read. Raises MlflowError."""
    return _found(readable_models(token), name)


def model_called(token: Token, name: str) -> RegisteredModel:
    """Return any model of the workspace. Raises MlflowError."""
    return _found(RegisteredModel.objects.filter(workspace=token.workspace), name)


def changeable_model(token: Token, name: str) -> RegisteredModel:
    """Return a model that the token made; with the scope `write`, any. Raises MlflowError."""
    model = model_called(token, name)
    _check_changeable(token, model, _no_model(name))
    return model


def read_version(token: Token, named: tuple[str, int]) -> ModelVersion:
    """Return a version that the token may read. Raises MlflowError."""
    return _found_version(readable_versions(token), named)


def changeable_version(token: Token, named: tuple[str, int]) -> ModelVersion:
    """Return a version that the token made; with the scope `write`, any. Raises MlflowError."""
    versions = ModelVersion.objects.filter(registered__workspace=token.workspace)
    version = _found_version(versions.select_related("registered", "tracked"), named)
    _check_changeable(token, version, _no_version(named))
    return version


def _check_changeable(
    token: Token, row: RegisteredModel | ModelVersion, otherwise: MlflowError
) -> None:
    if token.allows(Token.WRITE) or row.created_by_id == token.pk:
        return
    if not token.allows(Token.READ):
        raise otherwise
    raise MlflowError(
        "PERMISSION_DENIED",
        "Another token registered this. Use a token with the scope write to change it.",
    )


def _found(models: QuerySet[RegisteredModel], name: str) -> RegisteredModel:
    found = models.filter(name=name).first()
    if found is None:
        raise _no_model(name)
    return found


def _found_version(versions: QuerySet[ModelVersion], named: tuple[str, int]) -> ModelVersion:
    found = versions.filter(registered__name=named[0], number=named[1]).first()
    if found is None:
        raise _no_version(named)
    return found


def _no_model(name: str) -> MlflowError:
    return missing_resource(f"Registered Model with name={name[:80]} not found")


def _no_version(named: tuple[str, int]) -> MlflowError:
    return missing_resource(f"Model Version (name={named[0][:80]}, version={named[1]}) not found")


@contextmanager
def write_registered(
    token: Token, model: RegisteredModel, more_bytes: int = 0
) -> Iterator[RegisteredModel]:
    """Count a change as an upload, and give the model as it is now, locked until the end."""
    taken = UploadAmounts(_NO_RUN, False, _WRITTEN_BYTES + more_bytes)
    with admission.count_while_written(token.workspace, token, taken), transaction.atomic():
        held = RegisteredModel.objects.select_for_update(of=("self",), no_key=True)
        found = held.filter(pk=model.pk).first()
        if found is None:
            raise _no_model(model.name)
        found.updated_at = timezone.now()
        found.save(update_fields=["updated_at"])
        yield found


def check_room(token: Token) -> None:
    """Raise MlflowError if the workspace has too many models for another one."""
    if RegisteredModel.objects.filter(workspace=token.workspace).count() >= MOST_MODELS:
        raise invalid_parameter(
            f"The workspace has {MOST_MODELS} registered models, the maximum. Delete some."
        )


def checked_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the tags of a model or version. Raises MlflowError for too many."""
    if len(tags) > MOST_TAGS or labels.size(tags) > MOST_TAG_CHARS:
        raise invalid_parameter(
            f"Too many tags: at most {MOST_TAGS}, of {MOST_TAG_CHARS} characters together."
        )
    return dict(tags)


def new_tags(said: Arguments) -> dict[str, str]:
    return checked_tags(labels.tags(said, MOST_TAG_CHARS))
