"""Celery's doors to the analysis: load, pure call, save."""

from __future__ import annotations

import logging

from celery import shared_task
from django.utils import timezone

from webapp.analysis import compaction, looking, queue, saving
from webapp.analysis.evaluation import evaluate as evaluate_run
from webapp.runs import progress

logger = logging.getLogger(__name__)


@shared_task(name=queue.TASK)
def evaluate(run_id: str) -> None:
    """Analyse one run, if it is due, or look whether it is. Running it again changes nothing."""
    held = queue.claim(run_id)
    if held is None:
        return
    try:
        if held.is_look and not looking.shows_news(held):
            queue.put_back(held)
            return
        outcome = evaluate_run(held)
        queue.finish(held, lambda: saving.save(outcome), outcome.is_final)
    except Exception as error:
        logger.exception("analysis failed", extra={"run": run_id})
        queue.fail(held, error)


@shared_task(name="analysis.sweep")
def sweep() -> None:
    queue.sweep()


@shared_task(name="analysis.mark_lost")
def mark_lost() -> None:
    progress.mark_lost(timezone.now())


@shared_task(name="analysis.compact_due")
def compact_due() -> None:
    for node_id in compaction.due_nodes(timezone.now()):
        compact.delay(node_id)
    compaction.delete_replaced(timezone.now())


@shared_task(name="analysis.compact")
def compact(node_id: int) -> None:
    compaction.compact_node(node_id)
