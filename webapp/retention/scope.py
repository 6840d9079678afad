"""Selects the parts of a workspace's retention that its members may see."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.accounts.models import Workspace
from webapp.retention.models import RetentionReport


def reports_of(workspace: Workspace) -> QuerySet[RetentionReport]:
    return RetentionReport.objects.filter(workspace=workspace)
