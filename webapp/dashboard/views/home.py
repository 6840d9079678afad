"""The home page."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods

from webapp.accounts import tokens
from webapp.accounts.access import PersonRequest
from webapp.accounts.models import Token
from webapp.dashboard import live
from webapp.dashboard.selectors.home import home_page
from webapp.http.addresses import own_url
from webapp.service import agent_wheel

FIRST_TOKEN_DAYS = 365


@require_http_methods(["GET", "HEAD", "POST"])
def home(request: PersonRequest) -> HttpResponse:
    """Shows what needs somebody; in a workspace without jobs, how to connect the agent. With a
    query, which only the list of jobs has, it was bookmarked when that list was here. A POST
    creates the first token.
    """
    if request.GET:
        return redirect(f"{reverse('dashboard:jobs')}?{request.GET.urlencode()}")
    state = live.workspace_state(request.workspace)
    if request.method == "POST":
        return redirect("dashboard:home") if state.has_jobs else _first_token(request, state)
    if unchanged := live.not_changed(request, state.version):
        return unchanged
    if state.has_jobs:
        page = home_page(request.workspace, timezone.now(), may_change=request.may_change)
        known = {"page": page, "version": state.version}
        answer = render(request, "dashboard/home.html", known)
    else:
        answer = _first_steps(request, state.version)
    return live.with_version(request, answer, state.version)


def _first_token(request: PersonRequest, state: live.WorkspaceState) -> HttpResponse:
    """Shows the first steps with a new token in their command."""
    name = f"agent of {request.user}"
    by, scopes = request.user, [Token.INGEST]
    _, plain = tokens.create_token(request.workspace, by, name, scopes, FIRST_TOKEN_DAYS)
    return _first_steps(request, state.version, plain)


def _first_steps(request: PersonRequest, version: str, token: str = "") -> HttpResponse:
    known = {
        "token": token,
        "base_url": own_url(request),
        "agent_wheel": agent_wheel.address(),
        "version": version,
    }
    return render(request, "dashboard/no_jobs.html", known)
