"""Stored amounts: what each workspace stores, as it was last counted, and what its imports used."""

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


class ImportUse(models.Model):
    """Use of a workspace's imports in one hour, of all attempts that ended in it.

    It outlives the imports: deleting a run gives nothing back.
    """

    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="import_uses")
    hour = models.PositiveBigIntegerField()
    """Whole hours since 1970."""
    imports = models.PositiveBigIntegerField(default=0)
    """Attempts, failed ones included."""
    unpacked_bytes = models.PositiveBigIntegerField(default=0)
    cpu_seconds = models.FloatField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "hour"], name="quotas_importuse_hour_of_workspace"
            )
        ]
        indexes = [models.Index(fields=["hour"], name="quotas_importuse_hour")]

    def __str__(self) -> str:
        return f"{self.workspace}: imports in hour {self.hour}"
