"""The files that belong to a run, over the API."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import FileResponse
from django.shortcuts import get_object_or_404
from ninja import Field, Path, Router, Schema

from webapp.accounts.access import TokenRequest
from webapp.accounts.bearer import Bearer
from webapp.accounts.models import Token
from webapp.http.downloads import serve_object
from webapp.runs import resource, scope

_readers = Bearer(Token.READ)
router = Router(tags=["read"], auth=_readers)


class ArtefactOut(Schema):
    sha256: str
    kind: str = Field(description="`profile`, `import`, ...")
    name: str
    size_bytes: int
    created_at: datetime


class ArtefactsOut(Schema):
    artefacts: list[ArtefactOut]


@router.get("/runs/{run_id}/artefacts", response=ArtefactsOut, summary="The files of a run")
def get_artefacts(request: TokenRequest, run_id: UUID) -> dict[str, Any]:
    """Answers a run's files, the oldest first; at most 200."""
    run = scope.run_or_404(request.auth.workspace, run_id)
    return {"artefacts": list(scope.artefacts_of(run))}


@resource.router.get(
    resource.ARTEFACT,
    tags=["read"],
    auth=_readers,
    summary="Download a file of a run",
    openapi_extra={
        "responses": {
            200: {
                "description": "The file",
                "content": {
                    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
                },
            }
        }
    },
)
def get_artefact(
    request: TokenRequest,
    run_id: UUID,
    sha256: str = Path(..., pattern=resource.SHA256),  # type: ignore[type-arg]
) -> FileResponse:
    """Answers the file as an attachment. The service doesn't check its content."""
    run = scope.run_or_404(request.auth.workspace, run_id)
    file = get_object_or_404(scope.artefacts_of(run), sha256=sha256)
    return serve_object(file.object_key, file.name, file.size_bytes)
