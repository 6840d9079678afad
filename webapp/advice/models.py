"""Recommendations, their state, and what following them saved."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Case, F, Q, When
from django.utils import timezone

from advisor.advice.recommendation import PRIOR
from webapp.accounts.models import Workspace
from webapp.background.models import Claimable
from webapp.database.money import UsdField
from webapp.runs.models import Job, Run

COUNTED_SAVING_USD = Case(When(rung=PRIOR, then=F("saving_low_usd")), default=F("saving_usd"))
"""The saving that counts, as `advisor.advice.order.counted_saving_usd` says."""


class Recommendation(models.Model):
    """Recommended change to a job, with what it would save. A job has one row per dedupe key of
    those that aren't followed yet.
    """

    ACTIVE, CLAIMED, VERIFIED = "active", "claimed", "verified"
    FAILED, UNVERIFIABLE = "failed", "unverifiable"
    DISMISSED, SNOOZED, EXPIRED = "dismissed", "snoozed", "expired"
    FOLLOWED = (CLAIMED, VERIFIED, FAILED, UNVERIFIABLE)
    PROVEN = (VERIFIED, FAILED)
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
    """The saving per run, at the prices of the evidence; None without a price."""
    saving_high_usd = UsdField(null=True, blank=True)
    monthly_saving_usd = UsdField(null=True, blank=True)
    """The saving over the actual runs of the last 30 days."""
    risk = models.FloatField(default=0)
    risk_dimension = models.CharField(max_length=64, blank=True)
    effort = models.CharField(max_length=16)
    evidence = models.JSONField(default=list)
    assumptions = models.JSONField(default=list)
    candidates = models.JSONField(default=list)
    rung = models.CharField(max_length=16, blank=True)
    """The basis of the estimate; empty if an earlier version wrote the row."""
    how_to_apply = models.JSONField(default=list)
    risk_reason = models.TextField(blank=True)
    conflicts_with = models.JSONField(default=list)
    rules = models.JSONField(default=list)
    """The rules whose findings it answers."""
    state = models.CharField(max_length=16, default=ACTIVE)
    is_provisional = models.BooleanField(default=True)
    """True if an analysis that was not the run's last gave the advice. Such advice is never claimed
    and never frozen."""
    seen_at = models.DateTimeField(null=True, blank=True)
    """The time at which a person first saw it; null if nobody did."""
    seen_estimate = models.JSONField(null=True, blank=True)
    """The estimate when a person first saw it, as `estimates.document` has it."""
    claimed_estimate = models.JSONField(null=True, blank=True)
    """The estimate when a run claimed it."""
    claimed_candidate = models.JSONField(null=True, blank=True)
    """The row of the candidate table that the claiming run equals; null if it answers a finding."""
    claimed_by = models.ForeignKey(
        Run, models.SET_NULL, null=True, blank=True, related_name="claimed_recommendations"
    )
    """The first later run that followed it."""
    proven_by = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True, related_name="+")
    """The run after which it was certain that it saves, or that it doesn't."""
    expired_by = models.ForeignKey(Run, models.SET_NULL, null=True, blank=True, related_name="+")
    """The run that no longer gave reason for it."""
    not_followed_by = models.ManyToManyField(Run, blank=True, related_name="not_followed")
    """The runs after the first that followed it which had gone back to what it had changed."""
    reopened_by = models.ForeignKey(
        Run, models.SET_NULL, null=True, blank=True, related_name="reopened_recommendations"
    )
    """The newest run, if it had gone back and gives reason for it again; null if it isn't open
    again."""
    followed_since = models.DateTimeField(null=True, blank=True)
    """The time from which a person says that it is followed; null if the runs tell."""
    realised_usd = UsdField(null=True, blank=True)
    """The saving of later runs against the adjusted reference, signed; null if not measured."""
    realised_low_usd = UsdField(null=True, blank=True)
    realised_high_usd = UsdField(null=True, blank=True)
    realised_runs = models.PositiveIntegerField(default=0)
    state_reason = models.TextField(blank=True, max_length=2000)
    """The reason for the state: what is missing, or what a person gave as a reason."""
    snoozed_until = models.DateTimeField(null=True, blank=True)
    decided_by = models.CharField(max_length=300, blank=True)
    """The person who decided on it; empty if nobody did."""
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
        ordering = [COUNTED_SAVING_USD.desc(nulls_last=True), "risk", "kind"]

    def __str__(self) -> str:
        return self.title


IS_OPEN = Q(state=Recommendation.ACTIVE) | Q(reopened_by__isnull=False)
"""Recommendations that the newest run gives reason for and doesn't follow."""


class RealisedSaving(models.Model):
    """Saving of one later run by following a recommendation. The rows of a run sum to what it
    saved. Derived from the job's runs, and rewritten with them.
    """

    recommendation = models.ForeignKey(Recommendation, models.CASCADE, related_name="savings")
    run = models.ForeignKey(Run, models.CASCADE, related_name="savings")
    usd = UsdField()
    """The signed saving: the adjusted reference minus what the run cost, or its part of that."""
    low_usd = UsdField()
    high_usd = UsdField()
    baseline_usd = UsdField()
    """The cost that the same work would have had before."""
    is_own_way = models.BooleanField(default=False)
    """The run was cheaper in a configuration that the recommendation doesn't name."""
    predicted_usd = UsdField(null=True, blank=True)
    """The saving that was promised for this amount of work; null without a price then."""
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


class SavingsRecount(Claimable):
    """Counts what an earlier version stored as saved in a workspace again."""

    workspace = models.OneToOneField(Workspace, models.CASCADE, related_name="savings_recount")
    before_usd = UsdField()
    """The proven saving, as the earlier version had counted it."""
    after_usd = UsdField(null=True, blank=True)
    """The proven saving, as it was counted then; null if not yet."""
    is_told = models.BooleanField(default=False)
    """A person has closed the note about it."""

    def __str__(self) -> str:
        return f"{self.workspace}: {self.done} of {self.wanted}"
