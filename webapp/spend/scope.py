"""The spend that members of a workspace may see."""

from __future__ import annotations

from django.db.models import QuerySet

from webapp.accounts.models import Workspace
from webapp.analysis.models import CostPart
from webapp.spend.models import Budget


def budgets_of(workspace: Workspace) -> QuerySet[Budget]:
    """Return the budgets, without deleted ones, and those of deleted or merged jobs."""
    there = {"deleted_at": None, "job__deleted_at": None, "job__merged_into": None}
    return Budget.objects.filter(workspace=workspace, **there).select_related("job", "workspace")


def every_budget_of(workspace: Workspace) -> QuerySet[Budget]:
    """Return all budgets, including deleted ones, which can be restored."""
    return Budget.objects.filter(workspace=workspace).select_related("job")


def priced_parts_of(workspace: Workspace) -> QuerySet[CostPart]:
    """Return the costs by node and day of all runs that have a price."""
    return CostPart.objects.filter(
        run__workspace=workspace, run__deleted_at=None, run__cost_usd__isnull=False
    )
