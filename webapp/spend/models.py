"""Monthly budgets, and the alerts about them."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q
from django.utils import timezone

from webapp.accounts.models import Workspace
from webapp.database.money import UsdField
from webapp.runs.models import Job


class Budget(models.Model):
    """The budget of a job, of all runs with a tag, or, if neither is set, of the workspace."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="budgets")
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    job = models.ForeignKey(Job, models.CASCADE, null=True, blank=True, related_name="budgets")
    tag_key = models.CharField(max_length=200, blank=True)
    tag_value = models.CharField(max_length=200, blank=True)
    amount_usd = UsdField()
    """The amount for each month, in the workspace's time zone."""
    threshold_pct = models.PositiveSmallIntegerField(default=80)
    created_at = models.DateTimeField(default=timezone.now)
    deleted_at = models.DateTimeField(null=True, blank=True)
    """Hidden from every page; can be restored."""

    class Meta:
        # Two, since NULLs are distinct in an SQLite index.
        constraints = [
            models.UniqueConstraint(
                fields=["job"],
                condition=Q(job__isnull=False, deleted_at=None),
                name="one_budget_a_job",
            ),
            models.UniqueConstraint(
                fields=["workspace", "tag_key", "tag_value"],
                condition=Q(job=None, deleted_at=None),
                name="one_budget_a_tag_or_workspace",
            ),
        ]
        ordering = ["created_at"]

    def __str__(self) -> str:
        if self.job is not None:
            return self.job.name
        return f"{self.tag_key}: {self.tag_value}" if self.tag_key else "Whole workspace"

    @property
    def kind(self) -> str:
        if self.job_id is not None:
            return "job"
        return "tag" if self.tag_key else "workspace"


class BudgetAlert(models.Model):
    """A budget reached a worse state in a month. Each state is recorded once a month."""

    budget = models.ForeignKey(Budget, models.CASCADE, related_name="alerts")
    month = models.DateField()
    """The month's first day, in the workspace's time zone."""
    state = models.CharField(max_length=16)
    spent_usd = UsdField()
    forecast_usd = UsdField(null=True, blank=True)
    """The forecast; None if there was none."""
    forecast_low_usd = UsdField(null=True, blank=True)
    forecast_high_usd = UsdField(null=True, blank=True)
    """The forecast's interval; None in alerts from before it was kept."""
    amount_usd = UsdField()
    """The budget's amount at that time."""
    reached_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["budget", "month", "state"], name="one_alert_a_month_and_state"
            )
        ]

    def __str__(self) -> str:
        return f"{self.budget} {self.state} in {self.month:%Y-%m}"
