"""A page that isn't in the person's current workspace, but may be in another one of theirs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from webapp.accounts import scope as accounts
from webapp.accounts.models import User, Workspace
from webapp.advice.scope import recommendations_of
from webapp.runs.scope import jobs_of, runs_of


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answers 404, with the offer to switch to the workspace that has what the URL names."""
    match, user = request.resolver_match, getattr(request, "user", None)
    elsewhere = None
    if match is not None and isinstance(user, User) and request.method == "GET":
        elsewhere = _workspace_with(user, match.kwargs)
    return render(request, "404.html", {"elsewhere": elsewhere}, status=404)


def _workspace_with(user: User, named: dict[str, object]) -> Workspace | None:
    """Return the workspace that has it, or None if none of those that the person may open does."""
    for workspace in accounts.workspaces_of(user):
        for found in _named(workspace, named):
            if found.exists():
                return workspace
    return None


def _named(workspace: Workspace, named: dict[str, object]) -> Iterator[QuerySet[Any]]:
    run, job, advice = map(named.get, ("run_id", "job_uuid", "recommendation_uuid"))
    if isinstance(run, UUID):
        yield runs_of(workspace).filter(pk=run)
    if isinstance(job, UUID):
        yield jobs_of(workspace).filter(uuid=job)
    if isinstance(advice, UUID):
        yield recommendations_of(workspace).filter(uuid=advice)
