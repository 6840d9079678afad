"""Finds the workspace that a command's argument names."""

from __future__ import annotations

from django.core.management.base import CommandError

from webapp.accounts.models import Workspace
from webapp.quotas import overrides


def one_called(reference: str) -> Workspace:
    """Return the workspace of this name or id. Raises CommandError."""
    found = overrides.workspaces_called(reference)
    if not found:
        raise CommandError(f"There is no workspace {reference!r}.")
    if len(found) > 1:
        ids = ", ".join(str(each.uuid) for each in found)
        raise CommandError(f"{len(found)} workspaces are called {reference!r}. Use an id: {ids}.")
    return found[0]
