"""The numbers of a run's steps, and the recount of runs whose steps were done again by a later one.

A run is analysed with what is known of its training's other runs at that time. Whatever arrives
later is compared with what the analysis took to count: a run that differs is analysed again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from rules.lost_steps import shift_ranges
from rules.step_ranges import StepRange, select_counted_steps
from webapp.analysis import queue
from webapp.analysis.models import NumberedSteps
from webapp.analysis.outcome import Outcome
from webapp.analysis.trainings import lineage
from webapp.analysis.trainings.times import unix_us
from webapp.database import documents
from webapp.runs import trainings
from webapp.runs.models import Run, began

SWEPT_DAYS = 2
"""Older trainings are taken to be over."""
SWEPT_AT_ONCE = 200


def steps_of_others(run: Run) -> list[StepRange]:
    """Return the step ranges of the training's other runs, in time since the start of this one."""
    if run.started_at is None or run.training_id is None:
        return []
    others = NumberedSteps.objects.filter(run__in=trainings.runs_with(run)).exclude(run=run)
    found = [each for row in others for each in row.step_ranges]
    return shift_ranges(found, -unix_us(run.started_at))


def save(run: Run, outcome: Outcome) -> None:
    """Write the numbers of the run's steps. Without samples, the known numbers are kept."""
    measured, since = outcome.measured, outcome.run.started_at
    if measured is None or measured.steps is None or since is None:
        return
    ranges = shift_ranges(measured.steps.ranges, unix_us(since))
    row = NumberedSteps(
        run=run,
        ranges=[list(astuple(each)) for each in ranges],
        kept=[each.last for each in measured.steps.kept_steps()],
        blocks=[list(astuple(block)) for block in measured.blocks],
        is_unknown=measured.steps.is_unknown,
    )
    documents.save([row], unique=("run",))


def recount_analysed(run: Run) -> int:
    """Recount a run as it was analysed. One that was alone and still is needs nothing."""
    if run.training_id is None and lineage.is_alone(run.pk):
        return 0
    return recount(run.pk)


def recount(run_id: UUID) -> int:
    """Join the run with the one that it continues, and queue the runs of its training that were
    counted without knowing all of it, and those of trainings that runs left. Returns their number.

    Call after the run's analysis was committed: of two that end together, the later one sees both.
    """
    fresh = Run.objects.select_related("workspace", "training").get(pk=run_id)
    parts = [fresh, *lineage.settle(fresh)]
    return _want({run.pk: run for each in parts for run in outdated_runs(each)}.values())


def recount_trainings(runs: QuerySet[Run], **_: Any) -> None:
    """Count the trainings of deleted or restored `runs` without or with them, and settle what
    continued them. Call in a transaction."""
    parts = runs.exclude(training=None).filter(job__deleted_at=None)
    newest_first = parts.alias(began=began()).order_by("-began", "-pk")
    # What depends on any of them came after the first.
    first_of_each = dict(newest_first.values_list("training", "pk"))
    for run_id in first_of_each.values():
        recount(run_id)


def queue_outdated(now: datetime) -> int:
    """Do the same for all recent trainings: a worker may have been killed before it did."""
    since = now - timedelta(days=SWEPT_DAYS)
    swept = Run.objects.present().filter(last_received_at__gte=since)
    alone = lineage.may_continue(swept).order_by("-last_received_at").values_list("pk", flat=True)
    recent = swept.exclude(training=None)
    of_each = recent.order_by("last_received_at").values_list("training", "pk")
    newest = list(dict(of_each).values())[-SWEPT_AT_ONCE:]
    return sum(recount(run_id) for run_id in [*alone[:SWEPT_AT_ONCE], *newest])


def outdated_runs(run: Run) -> list[Run]:
    """Return the runs of the training whose ledger took other steps to count. Runs without samples
    can't be measured again, and those that were never analysed will be.
    """
    rows = list(
        NumberedSteps.objects.filter(run__in=trainings.runs_with(run)).select_related("run")
    )
    counted = iter(select_counted_steps([each for row in rows for each in row.step_ranges]))
    fresh = [[next(counted).last for _ in row.ranges] for row in rows]
    return [
        row.run
        for row, now in zip(rows, fresh, strict=True)
        if row.kept != now and row.run.raw_deleted_at is None
    ]


def differs(rows: Sequence[NumberedSteps]) -> bool:
    """Return whether some run's ledger is still the one from before a later attempt."""
    counted = iter(select_counted_steps([each for row in rows for each in row.step_ranges]))
    return any(row.kept != [next(counted).last for _ in row.ranges] for row in rows)


def _want(runs: Iterable[Run]) -> int:
    found = list(runs)
    if not found:
        return 0
    with transaction.atomic():
        for run in found:
            queue.queue_run(run, is_upload=False)
            queue.enqueue_on_commit(run)
    return len(found)
