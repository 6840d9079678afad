"""Joins a run with a training by hand, and splits it from one. Both can be undone."""

from __future__ import annotations

from uuid import UUID

from django.db import transaction

from webapp.accounts import audit
from webapp.analysis.trainings import numbered_steps
from webapp.runs import locks, trainings
from webapp.runs.editing.changes import Actor
from webapp.runs.models import Run, Training


class JoiningError(ValueError):
    """Raised when the run can't be joined; the message says why."""


def join(run: Run, by: Actor, other: Run) -> Training | None:
    """Make the run a part of the other one's training. Returns the training that it was a part of.

    Raises:
        JoiningError: the runs are the same, belong to another workspace, or one is a probe.
    """
    if run.pk == other.pk or run.workspace_id != other.workspace_id:
        raise JoiningError("Name another run of this workspace.")
    if run.is_probe or other.is_probe:
        raise JoiningError("A probe is no part of a training.")
    with transaction.atomic():
        training = _training_of(other)
        before = _move(run, by, training)
    _recount(run, before)
    return before


def split(run: Run, by: Actor) -> Training | None:
    """Make the run a training of its own. Returns the training that it was a part of."""
    with transaction.atomic():
        before = _move(run, by, None)
    _recount(run, before)
    return before


def undo_change(run: Run, by: Actor, training: UUID | None) -> None:
    """Undo a join or split. A training that no longer exists is none."""
    known = run.workspace.trainings.filter(uuid=training).first() if training else None
    with transaction.atomic():
        before = _move(run, by, known)
    _recount(run, before)


def _training_of(run: Run) -> Training:
    held = locks.run(run.pk)
    if held.training is None:
        held.training = Training.objects.create(workspace=held.workspace)
        held.save(update_fields=["training"])
    return held.training


def _move(run: Run, by: Actor, training: Training | None) -> Training | None:
    """Move the run to a training. The agent's later declarations no longer change it."""
    held = locks.run(run.pk)
    before, held.training = held.training, training
    held.training_is_edited = True
    held.continues, held.continues_by = None, ""
    held.save(update_fields=["training", "training_is_edited", "continues", "continues_by"])
    change = {"training": (str(before or ""), str(training or ""))}
    audit.record(held.workspace, by, "run.training_changed", str(held), change)
    return before


def _recount(run: Run, before: Training | None) -> None:
    """Count both trainings again: the one that the run left may have lost less, the one that it
    joined more.
    """
    numbered_steps.recount(run.pk)
    left = trainings.any_run_of(before)
    if left is not None:
        numbered_steps.recount(left.pk)
