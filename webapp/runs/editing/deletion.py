"""Deletes runs and jobs, and restores them.

Deleted runs and jobs are hidden from every page and sum. Retention deletes them permanently after
`UNDO_DAYS`. Everything that was deleted together is restored together.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.utils import timezone

from webapp.accounts import audit
from webapp.runs import locks
from webapp.runs.editing.changes import Actor
from webapp.runs.models import Job, Run, RunQuerySet
from webapp.runs.signals import history_changed, runs_came_or_went

BATCH = 1000


@transaction.atomic
def delete_run(run: Run, by: Actor) -> None:
    """Delete a run. Only a person can restore it, even if its agent keeps sending. Deleting it
    again changes nothing."""
    held = locks.run(run.pk)
    if held.deleted_at is not None:
        return
    held.deleted_at = timezone.now()
    held.save(update_fields=["deleted_at"])
    audit.record(held.workspace, by, "run.deleted", str(held))
    _announce(held.job, Run.objects.filter(pk=held.pk))


@transaction.atomic
def restore_run(run: Run, by: Actor) -> None:
    """Restore one run, and its job if that is deleted, without the job's other runs."""
    held = locks.run(run.pk)
    if held.deleted_at is None:
        return
    held.deleted_at = None
    held.save(update_fields=["deleted_at"])
    Job.objects.filter(pk=held.job_id).update(deleted_at=None)
    audit.record(held.workspace, by, "run.restored", str(held))
    _announce(held.job, Run.objects.filter(pk=held.pk))


@transaction.atomic
def delete_job(job: Job, by: Actor) -> datetime:
    """Delete a job with its runs. Returns the time of deletion. Its name stays reserved; a new run
    of that name restores the job without these runs."""
    held = locks.job(job.pk)
    if held.deleted_at is not None:
        return held.deleted_at
    held.deleted_at = timezone.now()
    held.save(update_fields=["deleted_at"])
    count = held.present_runs.update(deleted_at=held.deleted_at)
    audit.record(held.workspace, by, "job.deleted", held.name, {"runs": (count, 0)})
    _announce(held, Run.objects.filter(job=held, deleted_at=held.deleted_at))
    return held.deleted_at


@transaction.atomic
def restore_job(job: Job, by: Actor, deleted_at: datetime) -> int:
    """Restore the job and the runs that were deleted at that time. Returns the number of runs."""
    held = locks.job(job.pk)
    runs = Run.objects.filter(job=held, deleted_at=deleted_at)
    oldest = runs.newest_first().last()
    if oldest is None and held.deleted_at != deleted_at:
        return 0
    Job.objects.filter(pk=held.pk).update(deleted_at=None)
    ids = list(runs.values_list("pk", flat=True))
    runs.update(deleted_at=None)
    audit.record(held.workspace, by, "job.restored", held.name, {"runs": (0, len(ids))})
    if oldest is not None:
        history_changed.send(sender=Run, job=held, since=oldest.began_at)
    for start in range(0, len(ids), BATCH):
        some = Run.objects.filter(pk__in=ids[start : start + BATCH])
        runs_came_or_went.send(sender=Run, runs=some)
    return len(ids)


def _announce(job: Job, runs: RunQuerySet) -> None:
    oldest = runs.newest_first().last()
    if oldest is not None:
        history_changed.send(sender=Run, job=job, since=oldest.began_at)
        runs_came_or_went.send(sender=Run, runs=runs)
