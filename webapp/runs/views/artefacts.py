"""The files that belong to a run."""

from __future__ import annotations

from uuid import UUID

from django.http import FileResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.http.downloads import serve_object
from webapp.runs import scope


@require_safe
def artefact(request: PersonRequest, run_id: UUID, sha256: str) -> FileResponse:
    run = scope.run_or_404(request.workspace, run_id)
    file = get_object_or_404(scope.artefacts_of(run), sha256=sha256)
    return serve_object(file.object_key, file.name, file.size_bytes)
