"""Celery's tasks of recommendations."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from webapp.advice import deciding


@shared_task(name="advice.wake")
def wake() -> None:
    """Open what was snoozed until now."""
    deciding.wake(timezone.now())
