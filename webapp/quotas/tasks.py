"""Celery's task of quotas."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from webapp.quotas import storage


@shared_task(name="quotas.count_storage")
def count_storage() -> None:
    """Count what each workspace stores. Running it again changes nothing."""
    storage.count(timezone.now())
