"""Middleware that sets a person's workspace, checks whether they may open the page, records when
they were last seen, and keeps pages out of shared caches.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, resolve_url

from webapp.accounts import access, scope, second_factor, sessions
from webapp.accounts.access import Audience
from webapp.accounts.models import Membership, User, Workspace


class PrivatePagesMiddleware:
    """Forbids caches to keep what is sent to a signed-in person: those of proxies, and that of a
    browser which somebody else uses later."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        is_private = request.user.is_authenticated
        response = self.get_response(request)
        if is_private or request.user.is_authenticated:
            response["Cache-Control"] = "no-store"
        return response


class LastSeenMiddleware:
    """Keeps the list of a person's sessions current."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.user.is_authenticated:
            sessions.update_session(request, request.user)
        return self.get_response(request)


class CurrentWorkspaceMiddleware:
    """Sets `request.membership` and `request.workspace`: the chosen workspace, else the first."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        membership = self._membership(request)
        request.membership = membership  # type: ignore[attr-defined]
        request.workspace = membership.workspace if membership else None  # type: ignore[attr-defined]
        request.workspaces = _own(request)  # type: ignore[attr-defined]
        request.may_change = access.belongs(membership, Audience.MEMBERS)  # type: ignore[attr-defined]
        request.is_owner = access.belongs(membership, Audience.OWNERS)  # type: ignore[attr-defined]
        return self.get_response(request)

    def _membership(self, request: HttpRequest) -> Membership | None:
        if not request.user.is_authenticated:
            return None
        own = scope.memberships_held_by(request.user)
        chosen = request.session.get("workspace")
        membership = own.filter(workspace=chosen).first() if chosen else None
        return membership or own.order_by("workspace__is_sample_data", "workspace").first()


def _own(request: HttpRequest) -> QuerySet[Workspace]:
    user = request.user
    return scope.workspaces_of(user) if user.is_authenticated else Workspace.objects.none()


class AccessMiddleware:
    """Refuses people whom a view is not for; see `access`."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], _args: Any, _kwargs: Any
    ) -> HttpResponse | None:
        wanted = access.audience(view, request.method or "GET")
        if wanted == Audience.EVERYBODY:
            return None
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        membership: Membership | None = request.membership  # type: ignore[attr-defined]
        if not access.belongs(membership, wanted):
            if membership is None:
                return redirect("accounts:no_workspace")
            raise PermissionDenied(_reason(wanted))
        if wanted >= Audience.VIEWERS and membership and _lacks_second_factor(request, membership):
            return _to_second_factor(request, request.user)
        return None


def _lacks_second_factor(request: HttpRequest, membership: Membership) -> bool:
    return membership.workspace.requires_two_factor and not second_factor.is_satisfied(request)


def _to_second_factor(request: HttpRequest, user: User) -> HttpResponse:
    """Redirect to the code, or to the set-up if the person has no app yet; then back to this
    page.
    """
    name = "accounts:sign_in_code" if second_factor.is_on(user) else "accounts:two_factor"
    back = request.get_full_path() if request.method == "GET" else "/"
    return redirect_to_login(back, resolve_url(name))


def _reason(wanted: Audience) -> str:
    who = "owners" if wanted == Audience.OWNERS else "members"
    return f"This page is only for {who} of the workspace. Ask an owner to change your role."
