"""Recommendations, their state, and what following them saved."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q
from django.utils import timezone

from webapp.database.money import UsdField
from webapp.runs.models import Job, Run


class Recommendation(models.Model):
    """One change to a job, with what it would save. Of those that aren't followed yet, one row per
    job and dedupe key."""

    ACTIVE, CLAIMED, VERIFIED = "active", "claimed", "verified"
    FAILED, UNVERIFIABLE = "failed", "unverifiable"
    DISMISSED, SNOOZED, EXPIRED = "dismissed", "snoozed", "expired"
    FOLLOWED = (CLAIMED, VERIFIED, FAILED, UNVERIFIABLE)
    UNDECIDED = (ACTIVE, SNOOZED, EXPIRED)
    STATES = (ACTIVE, *FOLLOWED, DISMISSED, SNOOZED, EXPIRED)
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
    rung = models.CharField(max_length=16, blank=True)
    """What the estimate rests on; empty: written by an earlier version."""
    how_to_apply = models.JSONField(default=list)
    risk_reason = models.TextField(blank=True)
    conflicts_with = models.JSONField(default=list)
    rules = models.JSONField(default=list)
    """The rules whose findings it answers."""
    state = models.CharField(max_length=16, default=ACTIVE)
    is_provisional = models.BooleanField(default=True)
    """From an analysis that was not the run's last. Never claimed, never frozen."""
    seen_at = models.DateTimeField(null=True, blank=True)
    """When a person first saw it; null: nobody did."""
    seen_estimate = models.JSONField(null=True, blank=True)
    """What was promised then, as `estimates.document` has it."""
    claimed_estimate = models.JSONField(null=True, blank=True)
    """What was promised when a run claimed it."""
    claimed_candidate = models.JSONField(null=True, blank=True)
    """The row of the candidate table that the claiming run equals; null: it answers a finding."""
    claimed_by = models.ForeignKey(
        Run, models.SET_NULL, null=True, blank=True, related_name="claimed_recommendations"
    )
    """The first later run that followed it."""
    proven_by = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True, related_name="+")
    """The run after which it was certain that it saves, or that it doesn't."""
    expired_by = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True, related_name="+")
    """The run that no longer gave reason for it."""
    followed_since = models.DateTimeField(null=True, blank=True)
    """From when on a person says that it is followed; null: the runs tell."""
    realised_usd = UsdField(null=True, blank=True)
    """What later runs saved against the adjusted baseline, signed; null: not measured."""
    realised_low_usd = UsdField(null=True, blank=True)
    realised_high_usd = UsdField(null=True, blank=True)
    realised_runs = models.PositiveIntegerField(default=0)
    state_reason = models.TextField(blank=True, max_length=2000)
    """Why it has its state: what is missing, or what a person gave as a reason."""
    snoozed_until = models.DateTimeField(null=True, blank=True)
    decided_by = models.CharField(max_length=300, blank=True)
    """The person who decided on it; empty: nobody did."""
    created_at = models.DateTimeField(default=timezone.now)
    changed_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job", "dedupe_key"],
                name="one_open_recommendation_a_key",
                condition=Q(state__in=("active", "snoozed")),
            ),
        ]
        ordering = ["-saving_usd"]

    def __str__(self) -> str:
        return self.title


class RealisedSaving(models.Model):
    """What one later run saved by following a recommendation. Derived from the job's runs, and
    rewritten with them."""

    recommendation = models.ForeignKey(Recommendation, models.CASCADE, related_name="savings")
    run = models.ForeignKey(Run, models.CASCADE, related_name="savings")
    usd = UsdField()
    """Signed: the adjusted baseline minus what the run cost, or its part of that."""
    low_usd = UsdField()
    high_usd = UsdField()
    baseline_usd = UsdField()
    """What the same work would have cost before."""
    predicted_usd = UsdField(null=True, blank=True)
    """What was promised for this amount of work; null: no price then."""
    predicted_low_usd = UsdField(null=True, blank=True)
    predicted_high_usd = UsdField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["recommendation", "run"], name="one_realised_saving_a_run"
            )
        ]

    def __str__(self) -> str:
        return f"{self.run}: {self.usd}"
