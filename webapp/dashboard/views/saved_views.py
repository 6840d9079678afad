"""Saves views of the list of runs, and removes them."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from webapp.accounts.access import PersonRequest, open_to_viewers
from webapp.dashboard.models import MOST_NAME_CHARS, MOST_QUERY_CHARS
from webapp.dashboard.selectors import saved_views
from webapp.dashboard.selectors.saved_views import query_of, views_of

MOST_VIEWS = 100
"""The most views that a person sees."""


@open_to_viewers
@require_POST
def save_view(request: PersonRequest) -> HttpResponse:
    """Saves an address of the list under a name, in place of the view that has the name."""
    named, is_shared = _named(request)
    query = query_of(QueryDict(request.POST.get("query", "").replace("\0", "")))
    others = views_of(request.workspace, request.user).exclude(**named).count()
    if problem := _problem(named["name"], query, others):
        messages.error(request, problem)
        return redirect(_address(query))
    saved_views.save_view(**named, query=query)
    whose = "for everybody in the workspace" if is_shared else "for you"
    messages.success(request, f"View “{named['name']}” saved {whose}.")
    return redirect(_address(query))


@open_to_viewers
@require_POST
def delete_view(request: PersonRequest) -> HttpResponse:
    """Removes the view of a name: members those of the workspace, everybody their own."""
    named, _ = _named(request)
    saved_views.delete_view(**named)
    messages.success(request, f"View “{named['name']}” removed. No run was changed.")
    return redirect(_address(""))


def _named(request: PersonRequest) -> tuple[dict[str, Any], bool]:
    """Return whose view of which name is meant, and whether it is the workspace's.

    Raises:
        PermissionDenied: a viewer means one of the workspace.
    """
    is_shared = request.POST.get("is_shared") == "on"
    if is_shared and not request.may_change:
        raise PermissionDenied("Viewers can't change the views of the workspace.")
    name = request.POST.get("name", "").replace("\0", "").strip()
    user = None if is_shared else request.user
    return {"workspace": request.workspace, "user": user, "name": name}, is_shared


def _problem(name: str, query: str, others: int) -> str:
    """Return what is wrong with a view, with its fix, or nothing."""
    if not name:
        return "The view wasn't saved: enter a name for it."
    if len(name) > MOST_NAME_CHARS:
        return f"The view wasn't saved: a name has at most {MOST_NAME_CHARS} characters."
    if len(query) > MOST_QUERY_CHARS:
        return "The view wasn't saved: its filter is too long. Remove conditions or columns."
    if others >= MOST_VIEWS:
        return f"The view wasn't saved: there are {MOST_VIEWS} already. Remove one of them."
    return ""


def _address(query: str) -> str:
    return f"{reverse('dashboard:runs')}{'?' if query else ''}{query}"
