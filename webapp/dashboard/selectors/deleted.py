"""Deletions that can still be undone, and merged jobs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, QuerySet

from webapp.runs.models import UNDO_DAYS, Job, Run

MOST_SHOWN = 200
"""The number of deletions shown, newest first. Older ones will soon be permanent."""


@dataclass(frozen=True)
class Deletion:
    """One deletion: a job with its runs, or runs of a job that still exists."""

    job: Job
    at: datetime
    run_count: int
    run: Run | None
    """The deleted run, if it is the only one."""

    @property
    def expires_at(self) -> datetime:
        return self.at + timedelta(days=UNDO_DAYS)

    @property
    def is_of_job(self) -> bool:
        return self.job.deleted_at == self.at


def deletions(jobs: QuerySet[Job], runs: QuerySet[Run]) -> list[Deletion]:
    """Return the deletions of a workspace, newest first."""
    gone = runs.exclude(deleted_at=None)
    moments = gone.order_by("-deleted_at").values_list("job", "deleted_at").distinct()
    counted = moments.annotate(count=Count("pk"))[:MOST_SHOWN]
    counts = {(job, at): count for job, at, count in counted if at is not None}
    for job in jobs.exclude(deleted_at=None).order_by("-deleted_at")[:MOST_SHOWN]:
        if job.deleted_at is not None:
            counts.setdefault((job.pk, job.deleted_at), 0)
    latest = sorted(counts, key=lambda key: key[1], reverse=True)[:MOST_SHOWN]
    named = jobs.in_bulk({job for job, _ in latest})
    alone = _alone(gone, [key for key in latest if counts[key] == 1])
    return [
        Deletion(named[job], at, counts[job, at], alone.get((job, at)))
        for job, at in latest
        if job in named
    ]


def _alone(
    gone: QuerySet[Run], keys: Iterable[tuple[int, datetime]]
) -> dict[tuple[int, datetime], Run]:
    """Return the runs that were deleted alone, by job and time."""
    moments = {at for _, at in keys}
    candidates = gone.filter(deleted_at__in=moments)
    return {(run.job_id, run.deleted_at): run for run in candidates if run.deleted_at is not None}
