"""Serves a run's file as a download. It is never displayed, because its content isn't trusted."""

from __future__ import annotations

from django.conf import settings
from django.http import FileResponse, Http404

from advisor.store.objects import ObjectMissingError
from advisor.store.opening import open_store
from webapp.runs.models import Artefact


def answer(artefact: Artefact) -> FileResponse:
    """Raises Http404 if its object no longer exists."""
    try:
        file = open_store(settings.OBJECTS_URL).open(artefact.object_key)
    except ObjectMissingError:
        raise Http404("The content of this file is no longer stored.") from None
    headers = {
        "Content-Length": str(artefact.size_bytes),
        "X-Content-Type-Options": "nosniff",
    }
    return FileResponse(
        file,
        as_attachment=True,
        filename=artefact.name,
        content_type="application/octet-stream",
        headers=headers,
    )
