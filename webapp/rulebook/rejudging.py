"""Judges the runs of a workspace again by what was set since. The row is the truth: Celery carries
the workspace's id, and beat looks for what a killed worker left."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta

from celery import current_app
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone
from kombu.exceptions import OperationalError

from rules import engine
from rules.rule import Values
from webapp.accounts.models import Workspace
from webapp.advice.advising import advise_again
from webapp.analysis import queue
from webapp.analysis.judged import columns_of
from webapp.analysis.models import Judgement
from webapp.rulebook.judging import hashes, judged_by
from webapp.rulebook.models import Rejudging
from webapp.rulebook.preview import recent_runs
from webapp.runs.models import Job, Run
from webapp.thresholds.values import values_of

TASK = "rulebook.judge_again"
LEFT_AFTER = timedelta(minutes=2)

logger = logging.getLogger(__name__)


def want(workspace: Workspace) -> None:
    """Call in the transaction that changed something."""
    Rejudging.objects.get_or_create(workspace=workspace)
    own = Rejudging.objects.filter(workspace=workspace)
    own.update(wanted=F("wanted") + 1, wanted_at=timezone.now())
    transaction.on_commit(lambda: _send(workspace.pk))


def sweep(now: datetime) -> None:
    """Hand out what lies with nobody."""
    left = Rejudging.objects.filter(wanted__gt=F("done"), wanted_at__lt=now - LEFT_AFTER)
    for workspace_id in left.values_list("workspace_id", flat=True):
        _send(workspace_id)


def judge_again(workspace_id: int) -> None:
    """Every judgement that was made by other values. Doing it again changes nothing."""
    own = Rejudging.objects.select_related("workspace").get(workspace_id=workspace_id)
    if own.wanted == own.done:
        return
    for job in Job.objects.filter(workspace=own.workspace):
        _judge_job_again(job, values_of(own.workspace, job))
    Rejudging.objects.filter(pk=own.pk, done__lt=own.wanted).update(done=own.wanted)


def _send(workspace_id: int) -> None:
    try:
        current_app.send_task(TASK, args=[workspace_id], retry=False)
    except OperationalError as error:
        logger.warning("broker unreachable; the sweep tries again", extra={"error": str(error)})


def _judge_job_again(job: Job, values: Mapping[str, Values]) -> None:
    marks = hashes(values)
    as_set = Q()
    for rule, mark in marks.items():
        as_set |= Q(rule=rule, values_hash=mark)
    others = Judgement.objects.filter(run__job=job, rule__in=marks).exclude(as_set)
    rows = list(others.select_related("run"))
    by_samples = {row.run_id for row in rows if not _one(row, values)}
    with transaction.atomic():
        _measure_again(recent_runs(job.workspace, job).filter(pk__in=by_samples))
        if rows:
            advise_again(job)


def _one(row: Judgement, values: Mapping[str, Values]) -> bool:
    """False: it takes the samples."""
    judged = judged_by(row, values)
    if judged is None:
        return False
    _write(row, judged)
    return True


def _write(row: Judgement, judged: engine.Judgement) -> None:
    """Unless an analysis has judged it anew in between."""
    fired = judged.verdict.state == Judgement.FIRED
    since = (row.first_fired_at or timezone.now()) if fired else None
    as_read = Judgement.objects.filter(pk=row.pk, judged_at=row.judged_at)
    as_read.update(
        **columns_of(judged, row.run.cost_usd, row.run.duration),
        first_fired_at=since,
        judged_at=timezone.now(),
    )


def _measure_again(runs: QuerySet[Run]) -> None:
    for run in runs.filter(raw_deleted_at=None):
        queue.want(run)
        queue.enqueue_on_commit(run)
