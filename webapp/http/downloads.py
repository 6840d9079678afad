"""Serves what a training machine downloads before it has a token."""

from __future__ import annotations

from django.http import FileResponse, Http404, HttpRequest
from django.views.decorators.http import require_safe

from webapp.service import agent_wheel as wheel


@require_safe
def agent_wheel(_request: HttpRequest, wheel_name: str) -> FileResponse:
    """Answers the agent as a wheel. It holds no secret, so everybody may have it."""
    if wheel_name != wheel.name():
        raise Http404("The service provides another version of the agent.")
    response = FileResponse(wheel.path().open("rb"), content_type="application/zip")
    response["Cache-Control"] = "no-cache"
    return response
