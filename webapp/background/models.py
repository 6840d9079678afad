"""The base of all rows of background work. The rows are the queue; messages only wake workers."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.utils import timezone


class Claimable(models.Model):
    """One piece of background work: due, leased to a worker, done or given up.

    `wanted` rises with everything that arrives; `done` is the `wanted` that the last worker saw. So
    nothing that arrives during the work is lost, and finished work is not repeated.
    """

    wanted = models.PositiveBigIntegerField(default=0)
    done = models.PositiveBigIntegerField(default=0)
    due_at = models.DateTimeField(default=timezone.now)
    waiting_since = models.DateTimeField(null=True, blank=True)
    """The time at which the first arrival that no finished work has seen was due, which may be
    ahead; null if nothing waits, or nobody waits for it."""
    lease = models.UUIDField(null=True, blank=True)
    """Identifies the worker that holds it. Remains if that worker dies."""
    leased_until = models.DateTimeField(null=True, blank=True)
    began_at = models.DateTimeField(null=True, blank=True)
    """The time at which a worker last claimed the row."""
    attempts = models.PositiveIntegerField(default=0)
    """Failed attempts since the last success."""
    kills = models.PositiveIntegerField(default=0)
    """Workers that died while holding it since then, often for unrelated reasons."""
    error = models.TextField(blank=True)
    """Workers that died while holding the row since the last success, often for unrelated
    reasons."""
    given_up_at = models.DateTimeField(null=True, blank=True)
    """The time at which automatic retries ended."""
    finished_at = models.DateTimeField(null=True, blank=True)
    """The time of the last success."""
    seconds = models.FloatField(default=0)
    """Duration of the last success."""

    class Meta:
        abstract = True
        indexes = [
            models.Index(
                fields=["due_at"],
                condition=Q(wanted__gt=F("done")),
                name="%(app_label)s_%(class)s_due",
            ),
            models.Index(
                fields=["leased_until"],
                condition=Q(leased_until__isnull=False),
                name="%(app_label)s_%(class)s_held",
            ),
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(done__lte=F("wanted")), name="%(app_label)s_%(class)s_done_is_wanted"
            )
        ]
