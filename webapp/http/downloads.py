"""Answers that are saved as files: stored files, the agent, and the cells of CSV files."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from django.conf import settings
from django.http import FileResponse, Http404, HttpRequest
from django.utils.http import content_disposition_header
from django.views.decorators.http import require_safe

from advisor.store.objects import ObjectMissingError
from advisor.store.opening import open_store
from webapp.service import agent_wheel as wheel

_OF_PATHS = "/\\"
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def attachment_header(name: str) -> str:
    """Return the Content-Disposition that saves an answer under this name, whatever is in it."""
    safe = "".join("-" if c in _OF_PATHS or not c.isprintable() else c for c in name)
    return str(content_disposition_header(True, safe))


def serve_object(object_key: str, name: str, size_bytes: int) -> FileResponse:
    """Answer with a stored file as a download. It is never displayed: its content isn't trusted.

    Raises:
        Http404: its object no longer exists.
    """
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


@require_safe
def agent_wheel(_request: HttpRequest, wheel_name: str) -> FileResponse:
    """Answer with the agent as a wheel. It holds no secret, so nobody needs a token for it."""
    if wheel_name != wheel.name():
        raise Http404("The service provides another version of the agent.")
    response = FileResponse(wheel.path().open("rb"), content_type="application/zip")
    response["Cache-Control"] = "no-cache"
    return response


def plain_cell(value: object) -> str:
    """Return the value as text that no spreadsheet takes for a formula; numbers stay numbers.

    Names come from people and machines, and a cell that begins like a formula is run by the
    reader's program (OWASP, "CSV injection"): a quote before it makes it text.
    """
    if value is None:
        return ""
    text = str(value)
    if isinstance(value, str) and text.startswith(_FORMULA):
        return f"'{text}"
    return text


def exact_cell(value: object) -> str:
    """Return the value as `plain_cell` does: amounts without an exponent, which some spreadsheets
    read as text, and times in seconds.
    """
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return plain_cell(value)
