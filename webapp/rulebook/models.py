"""Which runs are to be judged again by what was set since."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from webapp.accounts.models import Workspace


class Rejudging(models.Model):
    """Whether the runs of a workspace are to be judged again by what was set since."""

    workspace = models.OneToOneField(Workspace, models.CASCADE, related_name="rejudging")
    wanted = models.PositiveBigIntegerField(default=0)
    """Rises with every change."""
    done = models.PositiveBigIntegerField(default=0)
    """The `wanted` that the last round saw."""
    wanted_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(done__lte=F("wanted")), name="done_is_wanted")
        ]

    def __str__(self) -> str:
        return f"{self.workspace}: {self.done} of {self.wanted}"
