"""Celery's doors to the rulebook."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from webapp.rulebook import rejudging


@shared_task(name=rejudging.TASK)
def judge_again(workspace_id: int) -> None:
    rejudging.judge_again(workspace_id)


@shared_task(name="rulebook.sweep")
def sweep() -> None:
    rejudging.sweep(timezone.now())
