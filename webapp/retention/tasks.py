"""Celery's task of retention."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from webapp.background import waking
from webapp.quotas import import_use
from webapp.retention import deletion, rounds

LIMITS = {"time_limit": rounds.MOST_SECONDS, "soft_time_limit": rounds.MOST_SECONDS - 100}


@shared_task(name="retention.carry_out", **LIMITS)
def run_retention() -> None:
    """Queue a round for every workspace once a day, and delete orphans and old counts."""
    rounds.queue_rounds()
    waking.wake()
    import_use.delete_old()
    deletion.delete_orphans(timezone.now())
