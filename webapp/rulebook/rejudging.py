"""Judges the runs of a workspace again by new thresholds, as background work."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from datetime import timedelta

from django.db import transaction
from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils import timezone

from rules import engine
from rules.rule import Values
from webapp.accounts.models import Workspace
from webapp.advice.life_cycle import queue_advice
from webapp.analysis import queue
from webapp.analysis.models import Judgement
from webapp.analysis.results import dividing
from webapp.analysis.results.judgement_rows import columns_of_run, hashes, judged_by
from webapp.background import claims, waking
from webapp.background.kinds import WorkKind, WorkLimits
from webapp.rulebook.models import Rejudging
from webapp.rulebook.preview import recent_runs
from webapp.runs.models import Job, Run
from webapp.thresholds.values import values_of

KIND = WorkKind(
    id="rejudging",
    title="Judging by new thresholds",
    model=Rejudging,
    work="webapp.rulebook.rejudging.rejudge_workspace",
    key="workspace_id",
    limits=WorkLimits(
        # The lease is renewed with each job.
        lease=timedelta(minutes=2),
        max_attempts=10,
        first_pause=timedelta(minutes=1),
        longest_pause=timedelta(minutes=30),
    ),
    workspace="workspace",
    subject=lambda _: "All runs of the workspace",
    address=lambda _: reverse("rulebook:parameters"),
    related=("workspace",),
)

logger = logging.getLogger(__name__)


def queue_rejudging(workspace: Workspace) -> None:
    """Queue the workspace. Call this in the transaction that changed something."""
    Rejudging.objects.get_or_create(workspace=workspace)
    claims.mark_due(Rejudging.objects.filter(workspace=workspace))
    waking.wake_on_commit(KIND, workspace=workspace)


def rejudge_workspace(workspace_id: int, **which: object) -> bool:
    """Judge every judgement with other values again. Repeating it changes nothing."""
    held = claims.claim(KIND, workspace_id, **which)
    if held is None:
        return False
    try:
        _judge_jobs_again(held)
        claims.finish_work(held)
    except Exception as error:
        logger.exception("judging again failed", extra={"workspace": workspace_id})
        claims.fail(held, error)
    return True


def _judge_jobs_again(held: claims.WorkClaim[Rejudging]) -> None:
    workspace = held.row.workspace
    for job in Job.objects.filter(workspace=workspace):
        _judge_job_again(job, values_of(workspace, job))
        claims.renew(held)


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
        for run in {row.run for row in rows}:
            dividing.redivide_ledger(run)
        if rows:
            queue_advice(job)


def _one(row: Judgement, values: Mapping[str, Values]) -> bool:
    """Judge one judgement again. Returns False if it needs the samples."""
    judged = judged_by(row, values)
    if judged is None:
        return False
    _write(row, judged)
    return True


def _write(row: Judgement, judged: engine.Judgement) -> None:
    """Write the judgement, unless an analysis has judged it again in between."""
    fired = judged.verdict.state == Judgement.FIRED
    since = (row.first_fired_at or timezone.now()) if fired else None
    as_read = Judgement.objects.filter(pk=row.pk, judged_at=row.judged_at)
    as_read.update(
        **columns_of_run(judged, row.run_id),
        first_fired_at=since,
        judged_at=timezone.now(),
    )


def _measure_again(runs: QuerySet[Run]) -> None:
    for run in runs.filter(raw_deleted_at=None):
        queue.queue_run(run, is_upload=False)
        queue.enqueue_on_commit(run)
