"""Read-only links for people outside the workspace."""

from __future__ import annotations

import uuid
from typing import ClassVar

from django.db import models
from django.utils import timezone

from webapp.accounts.models import User, Workspace
from webapp.runs.models import Run


class ShareLink(models.Model):
    """One link to one run, report or comparison. Only the digest of its secret is stored."""

    RUN, REPORT, COMPARISON = "run", "report", "comparison"
    KINDS: ClassVar = [(RUN, "Run"), (REPORT, "Report"), (COMPARISON, "Comparison")]
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    workspace = models.ForeignKey(Workspace, models.CASCADE, related_name="share_links")
    kind = models.CharField(max_length=16, choices=KINDS)
    run = models.ForeignKey(Run, models.CASCADE, related_name="share_links")
    """The shared run; the later one of a comparison."""
    earlier = models.ForeignKey(
        Run, models.CASCADE, null=True, blank=True, related_name="share_links_as_earlier"
    )
    """The earlier run of a comparison; null otherwise."""
    digest = models.CharField(max_length=64, unique=True)
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_opened_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes = [models.Index(fields=["workspace", "-created_at"])]

    def __str__(self) -> str:
        name = f"{self.run.job.name} #{self.run.number}"
        if self.earlier is None:
            return f"Report of {name}" if self.kind == self.REPORT else f"Run {name}"
        return f"Comparison of {self.earlier.job.name} #{self.earlier.number} with {name}"

    @property
    def has_expired(self) -> bool:
        return self.expires_at <= timezone.now()
