"""What each workspace stores, as it was last counted."""

from __future__ import annotations

from django.db import models

from webapp.accounts.models import Workspace


class StorageUse(models.Model):
    """The size of a workspace's objects. Counted from the rows each time, never only added to."""

    workspace = models.OneToOneField(Workspace, models.CASCADE, related_name="storage_use")
    size_bytes = models.BigIntegerField(default=0)
    jobs = models.JSONField(default=list, blank=True)
    """[job's primary key, bytes] of the largest jobs, the largest first."""
    counted_at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.workspace}: {self.size_bytes} bytes"
