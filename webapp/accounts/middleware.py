"""Which workspace a signed-in person is looking at."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from webapp.accounts.models import Workspace


class CurrentWorkspaceMiddleware:
    """Sets `request.workspace`: the chosen one if the person is a member, else their first."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.workspace = self._workspace(request)  # type: ignore[attr-defined]
        return self.get_response(request)

    def _workspace(self, request: HttpRequest) -> Workspace | None:
        if not request.user.is_authenticated:
            return None
        own = Workspace.objects.filter(members=request.user).order_by("is_sample_data", "pk")
        chosen = request.session.get("workspace")
        found = own.filter(pk=chosen).first() if chosen else None
        return found or own.first()
