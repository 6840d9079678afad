"""Queued judging of runs by new thresholds."""

from __future__ import annotations

from django.db import models

from webapp.accounts.models import Workspace
from webapp.background.models import Claimable


class Rejudging(Claimable):
    """Judges the runs of a workspace again by new thresholds. `wanted` rises with every change."""

    workspace = models.OneToOneField(Workspace, models.CASCADE, related_name="rejudging")

    def __str__(self) -> str:
        return f"{self.workspace}: {self.done} of {self.wanted}"
