"""The saved views of the list of runs that a person may see, open and remove."""

from __future__ import annotations

from django.db.models import Q, QuerySet
from django.http import QueryDict

from webapp.accounts.models import User, Workspace
from webapp.dashboard.models import SavedView

KEPT = (
    *("q", "filter", "column", "sort", "group"),
    *("state", "label", "days", "day", "month", "job", "price", "owner", "tag"),
)
"""The parts of an address that make a view. The page number doesn't."""


def views_of(workspace: Workspace, user: User) -> QuerySet[SavedView]:
    """Return the views of the workspace and the person's own ones there."""
    visible = Q(user=None) | Q(user=user)
    return SavedView.objects.filter(visible, workspace=workspace)


def save_view(workspace: Workspace, user: User | None, name: str, query: str) -> None:
    """Save a view in place of the one of this name. Without a user it is the workspace's."""
    SavedView.objects.update_or_create(
        workspace=workspace, user=user, name=name, defaults={"query": query}
    )


def delete_view(workspace: Workspace, user: User | None, name: str) -> None:
    SavedView.objects.filter(workspace=workspace, user=user, name=name).delete()


def query_of(address: QueryDict) -> str:
    """Return the part of an address that makes a view, always in the same order."""
    kept = QueryDict(mutable=True)
    for name in KEPT:
        values = [value for value in address.getlist(name) if value]
        if values:
            kept.setlist(name, values)
    return kept.urlencode()
