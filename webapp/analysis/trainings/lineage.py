"""Finds which run another one continues, and joins them to one training.

A link is a function of the rows of the runs that began before: whatever arrives later, in whichever
order, the same links are found. `rules.continuation` tells a continuation from a fine-tuning.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from advisor.costing.projection import has_reached_plan
from rules.continuation import GOES_ON, Progress, progress, why_not
from webapp.analysis.models import CheckpointFile, NumberedSteps
from webapp.database.prepared import Models, Slot
from webapp.runs import locks, trainings
from webapp.runs.models import Run, RunQuerySet, Training, began


@dataclass(frozen=True)
class Link:
    """Link between two runs: `run` continues `before`, unless `refusal` says why not."""

    run: Run
    before: Run
    by: str
    """The evidence, one of `Run.CONTINUES_BY`."""
    refusal: str = GOES_ON


def link_of(run: Run) -> Link | None:
    """Return the link to the run that this one may continue, or None if none is known."""
    started_again = trainings.started_before(run)
    if started_again is not None and started_again.state != Run.FINISHED:
        return Link(run, started_again, Run.SCHEDULER)
    found = _saved_what_it_loaded(run)
    if found is None:
        return None
    saver, loaded_us = found
    refusal = why_not(progress_of(run), loaded_us, progress_of(saver), earlier_runs(run, saver))
    return Link(run, saver, Run.CHECKPOINT, refusal)


def settle(run: Run) -> list[Run]:
    """Join the run, and later ones that depend on it, with what they continue. A person's choice
    and a declared key stay as they are. Returns a run of each training whose runs have changed."""
    if is_alone(run.pk):
        return []
    left = run.training
    changed = _settled(run)
    for each in _later(run, left):
        changed += _settled(each)
    return changed


def progress_of(run: Run) -> Progress | None:
    row = NumberedSteps.objects.filter(run=run).first()
    return None if row is None else _progress(run, row)


def _progress(run: Run, row: NumberedSteps) -> Progress | None:
    last = max((each.last for each in row.step_ranges), default=0)
    done = {"steps": last, "epochs": run.work.get("epochs", 0)}
    return progress(
        row.step_ranges,
        is_finished=run.state == Run.FINISHED,
        reached_plan=has_reached_plan(done, run.parameters),
    )


def earlier_runs(run: Run, before: Run) -> list[Progress]:
    """Return the runs of the training of `before` that began before this one."""
    earlier = _earlier(trainings.runs_with(before), run).exclude(pk=before.pk)
    rows = NumberedSteps.objects.filter(run__in=earlier.values("pk"))
    found = (_progress(row.run, row) for row in rows.select_related("run"))
    return [each for each in found if each is not None]


def may_continue(runs: RunQuerySet) -> RunQuerySet:
    """Return the runs that are no part of a training, but may continue another run."""
    alone = runs.ordinary().filter(training=None, training_is_edited=False)
    loads = CheckpointFile.objects.filter(is_loaded=True).values("run")
    return alone.filter(~Q(requeue="") | Q(pk__in=loads))


def join(link: Link) -> None:
    """Make the run a part of the other one's training. Call with the job locked."""
    link.run.training = _training_of(link.before)
    link.run.continues, link.run.continues_by = link.before, link.by
    link.run.save(update_fields=["training", "continues", "continues_by"])


def is_settled(run: Run) -> bool:
    """Return whether a person, or the key that the run's agent declared, said which training it is
    a part of.
    """
    is_named = run.training is not None and run.training.key != "" and run.continues_id is None
    return run.training_is_edited or run.is_probe or run.deleted_at is not None or is_named


def is_alone(run_id: UUID) -> bool:
    """Return whether nothing indicates that the run continues another one, or that another one
    continues it.
    """
    return bool(_alone(run=run_id))


@Models
def _alone() -> QuerySet[Run]:
    """Return the query for a run that is alone: one run at most."""
    slot = Slot("run", Run._meta.pk)
    own = Run.objects.filter(pk=slot, training=None, continues=None, requeue="")
    files = CheckpointFile.objects.filter(run=OuterRef("pk"))
    return own.filter(~Exists(files)).only("pk")


def is_apart_by_hand(run: Run) -> bool:
    """Return whether a person split the run off, so that nothing joins with it."""
    return run.training_is_edited and run.training_id is None


def _settled(run: Run) -> list[Run]:
    """Settle the run; return a run of the training that it left and of the one that it joined, if
    it did.
    """
    if is_settled(run) or run.continues_by == Run.STEPS:
        return []
    link = link_of(run)
    if link is None or link.refusal != GOES_ON:
        return _leave(run) if run.continues_id is not None else []
    if is_apart_by_hand(link.before) or _is_joined(link):
        return []
    left = run.training
    with transaction.atomic():
        locks.job(run.job_id)
        join(link)
    return _of_each(run, left)


def _leave(run: Run) -> list[Run]:
    left = run.training
    run.training, run.continues, run.continues_by = None, None, ""
    run.save(update_fields=["training", "continues", "continues_by"])
    return _of_each(run, left)


def _of_each(run: Run, left: Training | None) -> list[Run]:
    remaining = trainings.any_run_of(left)
    return [run] if remaining is None else [run, remaining]


def _is_joined(link: Link) -> bool:
    run, before = link.run, link.before
    same = (run.continues_id, run.continues_by) == (before.pk, link.by)
    return same and run.training_id is not None and run.training_id == before.training_id


def _training_of(before: Run) -> Training:
    held = Run.objects.select_related("training").get(pk=before.pk)
    if held.training is None:
        held.training = Training.objects.create(workspace_id=held.workspace_id)
        held.save(update_fields=["training"])
    return held.training


def _saved_what_it_loaded(run: Run) -> tuple[Run, int] | None:
    """Return the run that saved most of the loaded files, of several the one that saved last, and
    when the files were loaded.
    """
    loaded = dict(
        CheckpointFile.objects.filter(run=run, is_loaded=True).values_list("fingerprint", "at_us")
    )
    if not loaded:
        return None
    saved = CheckpointFile.objects.filter(
        run__in=_earlier(_of_job(run), run).values("pk"),
        fingerprint__in=loaded,
        is_loaded=False,
    )
    rows = [row for row in saved if row.at_us <= loaded[row.fingerprint]]
    if not rows:
        return None
    files = Counter(row.run_id for row in rows)
    last = max(rows, key=lambda row: (files[row.run_id], row.at_us, str(row.run_id)))
    of_it = [loaded[row.fingerprint] for row in rows if row.run_id == last.run_id]
    return Run.objects.select_related("training").get(pk=last.run_id), min(of_it)


def _later(run: Run, left: Training | None) -> list[Run]:
    """Return the runs whose link may depend on this one: they loaded what it or its training saved,
    were started by the same scheduler's job, or are linked to it. In the order of their starts.
    """
    trainings_of = [each.pk for each in (run.training, left) if each is not None]
    together = Q(run=run) | Q(run__training__in=trainings_of)
    saved = CheckpointFile.objects.filter(together, is_loaded=False).values("fingerprint")
    loads = CheckpointFile.objects.filter(fingerprint__in=saved, is_loaded=True).values("run")
    touched = Q(pk__in=loads) | Q(continues=run)
    touched |= Q(training__in=trainings_of, continues__isnull=False)
    if run.requeue:
        touched |= Q(requeue=run.requeue)
    later = _of_job(run).filter(touched).alias(began=began()).filter(began__gte=run.began_at)
    known = later.exclude(pk=run.pk).select_related("training").order_by("began", "pk")
    return [each for each in known if (each.began_at, each.pk) > (run.began_at, run.pk)]


def _of_job(run: Run) -> RunQuerySet:
    """Return the present runs of the run's job."""
    return Run.objects.present().ordinary().filter(job=run.job_id)


def _earlier(runs: RunQuerySet, run: Run) -> RunQuerySet:
    """Return the runs that began before this one; of two that began together, the one with the
    lower id.
    """
    first = Q(began__lt=run.began_at) | Q(began=run.began_at, pk__lt=run.pk)
    return runs.alias(began=began()).filter(first)
