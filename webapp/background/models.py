"""What every row of background work has. The row is the queue: Celery only wakes workers."""

from __future__ import annotations

from django.db import models
from django.db.models import F, Q
from django.utils import timezone


class Claimable(models.Model):
    """One piece of background work: due, leased to a worker, done or given up.

    `wanted` rises with everything that arrives; `done` is the `wanted` that the last worker saw. So
    what arrives while somebody works is not lost, and work that is done is never done twice.
    """

    wanted = models.PositiveBigIntegerField(default=0)
    done = models.PositiveBigIntegerField(default=0)
    due_at = models.DateTimeField(default=timezone.now)
    queued_at = models.DateTimeField(null=True, blank=True)
    """When its id was last handed to the broker."""
    lease = models.UUIDField(null=True, blank=True)
    """Names the worker that has it. Left behind by a worker that died."""
    leased_until = models.DateTimeField(null=True, blank=True)
    began_at = models.DateTimeField(null=True, blank=True)
    """When a worker last took it."""
    attempts = models.PositiveIntegerField(default=0)
    """That failed, since the last success."""
    kills = models.PositiveIntegerField(default=0)
    """Workers that died with it since then: most of them for reasons of their own."""
    error = models.TextField(blank=True)
    """Of the last failed attempt, or why nobody tries again; for people to read."""
    given_up_at = models.DateTimeField(null=True, blank=True)
    """When it was decided that nobody tries again by himself."""
    finished_at = models.DateTimeField(null=True, blank=True)
    """When it was last done."""
    seconds = models.FloatField(default=0)
    """What the last success took."""

    class Meta:
        abstract = True
        indexes = [
            models.Index(
                fields=["due_at"],
                condition=Q(wanted__gt=F("done")),
                name="%(app_label)s_%(class)s_due",
            )
        ]
        constraints = [
            models.CheckConstraint(
                condition=Q(done__lte=F("wanted")), name="%(app_label)s_%(class)s_done_is_wanted"
            )
        ]
