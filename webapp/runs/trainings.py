"""Finds the runs that make up one training."""

from __future__ import annotations

from webapp.accounts.models import Workspace
from webapp.runs.models import Run, RunQuerySet, Training, began


def training_of_key(workspace: Workspace, key: str) -> Training:
    """Return the training of this key, created if it is new."""
    return Training.objects.get_or_create(workspace=workspace, key=key)[0]


def runs_with(run: Run) -> RunQuerySet:
    """Return the present runs of the run's training, without probes, in the order of their
    starts.
    """
    same = Run.objects.filter(pk=run.pk)
    if run.training_id is not None:
        same = Run.objects.filter(training=run.training_id).ordinary()
    return same.present().alias(began=began()).order_by("began", "pk")


def any_run_of(training: Training | None) -> Run | None:
    """Return a present run of the training, or None if it has none."""
    return Run.objects.present().ordinary().filter(training=training).first() if training else None


def started_before(run: Run) -> Run | None:
    """Return the run that its scheduler started before as the same job; None if none is known."""
    if not run.requeue:
        return None
    same = Run.objects.present().ordinary().filter(job=run.job_id, requeue=run.requeue)
    earlier = same.alias(began=began()).filter(began__lt=run.began_at).exclude(pk=run.pk)
    return earlier.select_related("training").newest_first().first()
