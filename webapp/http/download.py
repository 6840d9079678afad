"""Serves a stored file as a download. It is never displayed: its content isn't trusted."""

from __future__ import annotations

from django.conf import settings
from django.http import FileResponse, Http404

from advisor.store.objects import ObjectMissingError
from advisor.store.opening import open_store


def answer(object_key: str, name: str, size_bytes: int) -> FileResponse:
    """Answer with the file. Raises Http404 if its object no longer exists."""
    try:
        file = open_store(settings.OBJECTS_URL).open(object_key)
    except ObjectMissingError:
        raise Http404("The content of this file is no longer stored.") from None
    headers = {
        "Content-Length": str(size_bytes),
        "X-Content-Type-Options": "nosniff",
    }
    return FileResponse(
        file,
        as_attachment=True,
        filename=name,
        content_type="application/octet-stream",
        headers=headers,
    )
