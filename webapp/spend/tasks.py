"""Looks now and then where the budgets stand."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from webapp.spend.crossings import watch


@shared_task(name="spend.watch_budgets")
def watch_budgets() -> None:
    watch(timezone.now())
