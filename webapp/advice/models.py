"""Recommendations and their state."""

from __future__ import annotations

import uuid

from django.db import models
from django.utils import timezone

from webapp.database.money import UsdField
from webapp.runs.models import Job, Run


class Recommendation(models.Model):
    """One change to a job, with what it would save. One row per job and dedupe key."""

    ACTIVE, CLAIMED, VERIFIED = "active", "claimed", "verified"
    FAILED, UNVERIFIABLE = "failed", "unverifiable"
    DISMISSED, SNOOZED, EXPIRED = "dismissed", "snoozed", "expired"
    uuid = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)
    job = models.ForeignKey(Job, models.CASCADE, related_name="recommendations")
    run = models.ForeignKey(Run, models.CASCADE, related_name="recommendations")
    """The run that is its evidence."""
    dedupe_key = models.CharField(max_length=200)
    kind = models.CharField(max_length=64)
    title = models.CharField(max_length=300)
    change = models.JSONField(default=dict)
    saving_low_usd = UsdField(null=True, blank=True)
    saving_usd = UsdField(null=True, blank=True)
    """Per run, at the prices of the evidence; None: no price."""
    saving_high_usd = UsdField(null=True, blank=True)
    monthly_saving_usd = UsdField(null=True, blank=True)
    """Over the actual runs of the last 30 days."""
    risk = models.FloatField(default=0)
    risk_dimension = models.CharField(max_length=64, blank=True)
    effort = models.CharField(max_length=16)
    evidence = models.JSONField(default=list)
    assumptions = models.JSONField(default=list)
    candidates = models.JSONField(default=list)
    state = models.CharField(max_length=16, default=ACTIVE)
    is_provisional = models.BooleanField(default=True)
    claimed_by = models.ForeignKey(
        Run, models.SET_NULL, null=True, blank=True, related_name="claimed_recommendations"
    )
    """The later run that apparently followed it; not verified yet."""
    created_at = models.DateTimeField(default=timezone.now)
    changed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "dedupe_key"], name="one_recommendation_a_key"),
        ]
        ordering = ["-saving_usd"]

    def __str__(self) -> str:
        return self.title
