"""The daily retention rounds, and what they deleted."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from webapp.accounts.models import Workspace
from webapp.background.models import Claimable


class RetentionRound(Claimable):
    """Deletes what has expired in one workspace. `wanted` rises once a day."""

    workspace = models.OneToOneField(Workspace, models.CASCADE, related_name="retention_round")

    def __str__(self) -> str:
        return f"retention of {self.workspace}"


class RetentionReport(models.Model):
    """One round in one workspace that deleted something."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="retention_reports")
    at = models.DateTimeField(default=timezone.now)
    counts = models.JSONField(default=dict)
    """Kind -> number deleted."""
    size_bytes = models.BigIntegerField(default=0)

    class Meta:
        ordering = ["-at"]

    def __str__(self) -> str:
        return f"{self.workspace} {self.at:%Y-%m-%d}: {self.size_bytes} bytes"
