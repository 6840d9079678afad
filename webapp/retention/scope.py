"""What the members of a workspace may see of its retention."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.accounts.models import Workspace
from webapp.retention.models import RetentionReport


def reports_of(workspace: Workspace) -> QuerySet[RetentionReport]:
    return RetentionReport.objects.filter(workspace=workspace)
