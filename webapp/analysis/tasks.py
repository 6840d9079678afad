"""Celery's tasks of the analysis: load, pure call, save."""

from __future__ import annotations

import logging
from contextlib import suppress

from celery import shared_task
from celery.exceptions import SoftTimeLimitExceeded
from django.conf import settings
from django.utils import timezone

from advisor.store.room import TooLargeError
from webapp.analysis import (
    compaction,
    looks,
    numbered_steps,
    outcome_rows,
    queue,
    recounting,
    renewal,
)
from webapp.analysis.evaluation import evaluate as evaluate_run
from webapp.background import claims, handing_out
from webapp.database.object_hold import BackupRunningError
from webapp.runs import progress

logger = logging.getLogger(__name__)


@shared_task(name=queue.KIND.task)
def evaluate(run_id: str) -> None:
    """Analyse one run if it is due, or look whether it is. Running it again changes nothing."""
    held = queue.claim(run_id)
    if held is None:
        return
    try:
        if held.is_look and (held.shows_nothing_new or not looks.shows_news(held)):
            queue.put_back(held)
            return
        outcome = evaluate_run(held)
        if queue.finish(held, lambda: outcome_rows.save(outcome), outcome.is_final):
            numbered_steps.recount(outcome.run.pk)
    except TooLargeError as error:
        claims.give_up(held, f"The run is too large to analyse: it has {error}.")
    except SoftTimeLimitExceeded:
        logger.exception("analysis took too long", extra={"run": run_id})
        minutes = settings.CELERY_TASK_SOFT_TIME_LIMIT // 60
        claims.give_up(held, f"The analysis was ended after {minutes} minutes.")
    except Exception as error:
        logger.exception("analysis failed", extra={"run": run_id})
        claims.fail(held, error)
    finally:
        handing_out.refill(queue.KIND)


@shared_task(name="analysis.mark_lost")
def mark_lost() -> None:
    progress.mark_lost(timezone.now())


@shared_task(name="analysis.renew")
def renew() -> None:
    """Queue runs that an earlier release analysed."""
    if renewal.want_outdated(timezone.now()):
        handing_out.sweep(queue.KIND)


@shared_task(name="analysis.recount")
def recount() -> None:
    """Queue runs whose cost or lost steps aren't what a fresh count gives."""
    now = timezone.now()
    if recounting.want_outdated(now) + numbered_steps.want_outdated(now):
        handing_out.sweep(queue.KIND)


@shared_task(name="analysis.compact_due")
def compact_due() -> None:
    """Queue every node that has enough to compact, and delete objects that newer ones replace."""
    compaction.want_due(timezone.now())
    handing_out.sweep(compaction.KIND)
    with suppress(BackupRunningError):
        compaction.delete_replaced(timezone.now())


@shared_task(name=compaction.KIND.task)
def compact(node_id: int) -> None:
    """Compact one node, if it is due. Running it again changes nothing."""
    held = claims.claim(compaction.KIND, node_id)
    if held is None:
        return
    try:
        if compaction.compact_node(node_id):
            claims.release(held, timezone.now())
        else:
            claims.finish(held)
    except Exception as error:
        logger.exception("compaction failed", extra={"node": node_id})
        claims.fail(held, error)
    finally:
        handing_out.refill(compaction.KIND)
