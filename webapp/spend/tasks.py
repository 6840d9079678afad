"""Celery's task that checks the budgets periodically."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from webapp.spend.budget_alerts import record_alerts


@shared_task(name="spend.watch_budgets")
def watch_budgets() -> None:
    record_alerts(timezone.now())
