"""Celery's task of the rulebook."""

from __future__ import annotations

from celery import shared_task

from webapp.rulebook import rejudging


@shared_task(name=rejudging.KIND.task)
def judge_again(workspace_id: int) -> None:
    rejudging.judge_again(workspace_id)
