"""Selects the links that the members of a workspace may see."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.accounts.models import Workspace
from webapp.sharing.models import ShareLink


def links_of(workspace: Workspace) -> QuerySet[ShareLink]:
    links = ShareLink.objects.filter(workspace=workspace)
    return links.select_related("workspace", "run__job", "earlier__job", "created_by")
