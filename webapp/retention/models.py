"""What retention has deleted, for people to see."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from webapp.accounts.models import Workspace


class RetentionReport(models.Model):
    """One round in one workspace that deleted something."""

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="retention_reports")
    at = models.DateTimeField(default=timezone.now)
    counts = models.JSONField(default=dict)
    """Kind of thing -> how many."""
    size_bytes = models.BigIntegerField(default=0)

    class Meta:
        ordering = ["-at"]

    def __str__(self) -> str:
        return f"{self.workspace} {self.at:%Y-%m-%d}: {self.size_bytes} bytes"
