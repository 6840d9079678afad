"""The write API: what people change on the pages, for scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.db import transaction
from ninja import Router

from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.api.changes import RunIn
from webapp.api.read import run_document
from webapp.api.schemas import RunOut
from webapp.problems import Problem
from webapp.runs import resource, scope, tags
from webapp.runs.editing import runs

_writers = Bearer(Token.WRITE)
router = Router(tags=["write"], auth=_writers)


@resource.router.patch(
    resource.ADDRESS,
    response=RunOut,
    tags=["write"],
    auth=_writers,
    summary="Change what people say of a run",
)
def patch_run(request: TokenRequest, run_id: UUID, change: RunIn) -> dict[str, Any]:
    """Only what is sent changes. Answers the run as it is then."""
    said = change.said()
    with transaction.atomic():
        run = runs.locked(scope.run_or_404(request.auth.workspace, run_id))
        if "billed_usd" in said:
            runs.bill(run, request.auth, said.pop("billed_usd"))
        runs.edit(run, request.auth, _whole(said, run.tags) | _one_baseline(said))
    return run_document(scope.run_or_404(request.auth.workspace, run_id))


def _whole(said: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """With all tags, in place of those that change."""
    if "tags" not in said:
        return said
    merged = {**known, **said["tags"]}
    wanted = {key: value for key, value in merged.items() if value is not None}
    if len(wanted) > tags.MOST_TAGS:
        detail = f"There would be {len(wanted)} tags; {tags.MOST_TAGS} are possible."
        raise Problem(422, detail, "tags", "Take some off with null.")
    return said | {"tags": wanted}


def _one_baseline(said: Mapping[str, Any]) -> dict[str, Any]:
    """An excluded run is pinned no more, and the other way round."""
    if said.get("is_excluded"):
        return {"is_pinned": False}
    return {"is_excluded": False} if said.get("is_pinned") else {}
