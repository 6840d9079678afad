"""Merges two jobs, and undoes that.

The merged job's row is kept. Runs that agents send under its name or key go to the other job, and
each of its runs remembers its former number.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import F, OuterRef, QuerySet, Subquery

from webapp.accounts import audit
from webapp.runs import locks, registration, run_values
from webapp.runs.editing.changes import Actor
from webapp.runs.models import Job, MovedRun, Run, RunQuerySet
from webapp.runs.signals import history_changed, runs_moved

BATCH = 1000


class MergeError(ValueError):
    """The jobs can't be merged. The message says why."""


@transaction.atomic
def merge(job: Job, into: Job, by: Actor) -> Job:
    """Move the runs of `job` to `into`, as well as those that arrive under its name later. Returns
    `into`. Name, owner and tags of `job` are no longer used.

    Raises:
        MergeError: both are the same job, or one of them is deleted or merged.
    """
    source, target = _both_locked(job, into)
    moved: RunQuerySet = Run.objects.filter(job=source)
    _remember(moved, source)
    count = moved.update(job=target, number=F("number") + target.runs_made)
    target.runs_made += source.runs_made
    target.save(update_fields=["runs_made"])
    source.merged_into = target
    source.save(update_fields=["merged_into"])
    run_values.write_tags_of_job(target, {*source.tags, *target.tags})
    runs_moved.send(sender=Job, source=source, target=target, runs=None)
    change = {"merged_into": (None, target.name), "runs": (count, 0)}
    audit.record(source.workspace, by, "job.merged", source.name, change)
    _announce(target, Run.objects.filter(moves__came_from=source))
    return target


@transaction.atomic
def unmerge(job: Job, by: Actor) -> Job:
    """Undo the merge: the job gets its runs back with their numbers, and those that arrived under
    its name since. Returns the job. A job that isn't merged is unchanged."""
    locks.merges(job.workspace_id)
    chain = _locked_chain(job)
    source, holder = chain[0], chain[-1]
    if source.merged_into is None:
        return source
    into, source.merged_into = source.merged_into, None
    source.save(update_fields=["merged_into"])
    count = _bring_back(source)
    own: RunQuerySet = Run.objects.filter(job=source)
    run_values.write_tags_of_job(source, {*source.tags, *holder.tags})
    runs_moved.send(sender=Job, source=holder, target=source, runs=own)
    MovedRun.objects.filter(run__job=source, came_from__in=chain).delete()
    change = {"merged_into": (into.name, None), "runs": (0, count)}
    audit.record(source.workspace, by, "job.unmerged", source.name, change)
    _announce(source, own)
    _announce(holder, own)
    return source


def _both_locked(job: Job, into: Job) -> tuple[Job, Job]:
    if job.pk == into.pk:
        raise MergeError("A job can't be merged into itself.")
    locks.merges(job.workspace_id)
    source, target = (locks.job(row.pk) for row in (job, into))
    for row in (source, target):
        if row.deleted_at is not None or row.merged_into_id is not None:
            raise MergeError(f"{row} was deleted or merged into another job.")
    return source, target


def _locked_chain(job: Job) -> list[Job]:
    """Return the job, the job it was merged into, and so on, locked in the same order as by
    uploads.
    """
    chain = [locks.job(job.pk)]
    while (merged_into := chain[-1].merged_into) is not None:
        chain.append(locks.job(merged_into.pk))
    return chain


def _remember(runs: QuerySet[Run], source: Job) -> None:
    numbers = runs.values_list("pk", "number")
    moves = [MovedRun(run_id=pk, came_from=source, number_before=n) for pk, n in numbers]
    MovedRun.objects.bulk_create(moves, batch_size=BATCH)


def _bring_back(source: Job) -> int:
    """Move the runs back. Returns their number."""
    moves = MovedRun.objects.filter(came_from=source)
    before = moves.filter(run=OuterRef("pk")).values("number_before")
    had_numbers = Run.objects.filter(pk__in=moves.exclude(number_before=None).values("run"))
    count = had_numbers.update(job=source, number=Subquery(before))
    for run in Run.objects.filter(pk__in=moves.filter(number_before=None).values("run")):
        run.job, run.number = source, registration.next_number(source)
        run.save(update_fields=["job", "number"])
        count += 1
    return count


def _announce(job: Job, runs: RunQuerySet) -> None:
    """Signal that the compared runs changed from the first of `runs` on."""
    first = runs.newest_first().last()
    if first is not None:
        history_changed.send(sender=Job, job=job, since=first.began_at)
