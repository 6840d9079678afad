"""The work of analyses and compactions, and Celery's tasks: load, pure call, save."""

from __future__ import annotations

import logging
from contextlib import suppress
from datetime import timedelta
from functools import partial
from uuid import UUID

from celery import shared_task
from celery.exceptions import SoftTimeLimitExceeded
from django.utils import timezone

from advisor.store.room import RoomExceededError
from webapp.analysis import queue
from webapp.analysis.judging import looks
from webapp.analysis.judging.evaluation import evaluate as evaluate_run
from webapp.analysis.renewal import reanalysis, recounting
from webapp.analysis.results import outcome_rows
from webapp.analysis.samples import compaction
from webapp.analysis.trainings import numbered_steps
from webapp.background import claims, waking
from webapp.database.object_hold import BackupRunningError
from webapp.runs import progress

logger = logging.getLogger(__name__)


def evaluate(run_id: UUID | str, **which: object) -> bool:
    """Analyse one run, or look whether it is time to. Running it again changes nothing."""
    held = queue.claim(run_id, **which)
    if held is None:
        return False
    try:
        seen = _looked_at(held) if held.is_look else looks.LookResult()
        if held.is_look and not seen.calls_for:
            queue.release_until_next_look(held, seen.quiet_until)
            return True
        outcome = evaluate_run(held)
        quiet_until = outcome.measured.quiet_until if outcome.measured else None
        save = partial(outcome_rows.save, outcome)
        kept = queue.finish_analysis(
            held, save, outcome.is_final, outcome.run.duration, quiet_until, seen.calls_for
        )
        if kept:
            numbered_steps.recount_analysed(outcome.run)
    except RoomExceededError as error:
        claims.mark_failed(held, f"The run is too large to analyse: it has {error}.")
    except SoftTimeLimitExceeded:
        logger.exception("analysis took too long", extra={"run": str(run_id)})
        minutes = queue.KIND.limits.longest // timedelta(minutes=1)
        claims.mark_failed(held, f"The analysis was ended after {minutes} minutes.")
    except Exception as error:
        logger.exception("analysis failed", extra={"run": str(run_id)})
        claims.fail(held, error)
    return True


def _looked_at(held: queue.AnalysisClaim) -> looks.LookResult:
    return looks.LookResult() if held.shows_nothing_new else looks.look(held)


@shared_task(name="analysis.mark_lost")
def mark_lost() -> None:
    progress.mark_lost_runs(timezone.now())


@shared_task(name="analysis.renew")
def renew() -> None:
    """Queue runs that an earlier release analysed."""
    if reanalysis.queue_outdated(timezone.now()):
        waking.wake()


@shared_task(name="analysis.recount")
def recount() -> None:
    """Queue runs whose cost or lost steps aren't what a fresh count gives."""
    now = timezone.now()
    if recounting.queue_outdated(now) + numbered_steps.queue_outdated(now):
        waking.wake()


@shared_task(name="analysis.compact_due")
def compact_due() -> None:
    """Queue every node that has enough to compact, and delete objects that newer ones replace."""
    compaction.want_due(timezone.now())
    waking.wake()
    with suppress(BackupRunningError):
        compaction.delete_replaced(timezone.now())


def compact(node_id: int, **which: object) -> bool:
    """Compact one node, if there is anything to do. Running it again changes nothing."""
    held = claims.claim(compaction.KIND, node_id, **which)
    if held is None:
        return False
    try:
        if compaction.compact_node(node_id):
            claims.release(held, timezone.now())
        else:
            claims.finish_work(held)
    except Exception as error:
        logger.exception("compaction failed", extra={"node": node_id})
        claims.fail(held, error)
    return True
