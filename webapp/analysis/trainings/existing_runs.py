"""Joins runs that were recorded before their agents told of checkpoints, or that arrived when the
service didn't join yet."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from rules.continuation import GOES_ON, why_not
from webapp.accounts import audit
from webapp.accounts.models import Workspace
from webapp.analysis.models import CheckpointFile, NumberedSteps
from webapp.analysis.trainings import lineage, numbered_steps
from webapp.analysis.trainings.lineage import Link
from webapp.analysis.trainings.times import unix_us
from webapp.runs import locks
from webapp.runs.models import Job, Run, began


def join(workspace: Workspace, *, is_dry: bool) -> Iterator[Link]:
    """Yield each run that continues another one, joined with it, and each that loaded another one's
    checkpoint for something else: job by job, in the order of the runs' starts.

    Runs that a person or a key has placed, and those that are joined already, stay as they are.

    Args:
        is_dry: changes nothing; the links are those that would be made.
    """
    for job in workspace.jobs.order_by("name", "pk"):
        candidates = _candidates(job)
        if not candidates:
            continue
        with transaction.atomic():
            found = list(_of_job(locks.job(job.pk), candidates))
            transaction.set_rollback(is_dry)
        if not is_dry:
            for link in found:
                numbered_steps.recount(link.run.pk)
        yield from found


def _candidates(job: Job) -> set[UUID]:
    """Return the runs about which something is known, before anything is locked."""
    runs = job.compared_runs
    loads = CheckpointFile.objects.filter(run__job=job, is_loaded=True).values("run")
    told = runs.filter(Q(pk__in=loads) | ~Q(requeue="")).values_list("pk", flat=True)
    rows = NumberedSteps.objects.filter(run__in=runs.values("pk"))
    firsts = {
        row.run_id: min((r.began_us, r.first) for r in row.step_ranges)
        for row in rows
        if row.ranges
    }
    resumed = (run_id for run_id, (_, first) in firsts.items() if first > 1)
    return {*told, *resumed}


def _of_job(job: Job, candidates: set[UUID]) -> Iterator[Link]:
    before: Run | None = None
    runs = job.compared_runs.alias(began=began()).order_by("began", "pk")
    for run in runs.select_related("workspace", "training"):
        is_free = run.pk in candidates and run.continues_id is None
        link = _link(run, before) if is_free and not lineage.is_settled(run) else None
        before = run
        if link is not None:
            if link.refusal == GOES_ON:
                _join(link)
            yield link


def _link(run: Run, before: Run | None) -> Link | None:
    link = lineage.link_of(run)
    if link is None and before is not None:
        link = _by_steps(run, before)
    is_possible = link is not None and not lineage.is_apart_by_hand(link.before)
    return link if is_possible else None


def _by_steps(run: Run, before: Run) -> Link | None:
    """Return the link of a run whose steps continue those of the job's last run, which didn't
    finish. This is weaker evidence than a checkpoint: nothing else joins by it.
    """
    later, earlier = lineage.progress_of(run), lineage.progress_of(before)
    if later is None or earlier is None or earlier.is_finished:
        return None
    known = lineage.earlier_runs(run, before)
    if why_not(later, unix_us(run.began_at), earlier, known) != GOES_ON:
        return None
    return Link(run, before, Run.STEPS)


def _join(link: Link) -> None:
    before = str(link.run.training or "")
    lineage.join(link)
    change = {"training": (before, str(link.run.training))}
    audit.record(link.run.workspace, None, "run.training_changed", str(link.run), change)
