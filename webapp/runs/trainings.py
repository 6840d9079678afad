"""Which runs make one training: those with its key, and those that their scheduler restarted."""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from webapp.accounts.models import Workspace
from webapp.runs.models import Run, RunQuerySet, Training, began


def called(workspace: Workspace, key: str) -> Training:
    """The training of this key, created if it is new."""
    return Training.objects.get_or_create(workspace=workspace, key=key)[0]


def runs_with(run: Run) -> RunQuerySet:
    """The present runs of the run's training, without probes, in the order of their starts."""
    same = Run.objects.filter(pk=run.pk)
    if run.training_id is not None:
        same = Run.objects.filter(training=run.training_id).ordinary()
    return same.present().alias(began=began()).order_by("began", "pk")


def any_run_of(training: Training | None) -> Run | None:
    """A present run of it; None: it has none."""
    return Run.objects.present().ordinary().filter(training=training).first() if training else None


@transaction.atomic
def join_requeued(run: Run) -> bool:
    """Join the run with the one that its scheduler started again as this one, unless somebody named
    its training. A run that finished isn't continued. Returns whether it joined one."""
    if not run.requeue or run.training_id is not None or run.training_is_edited or run.is_probe:
        return False
    before = _started_before(run, run.began_at).newest_first().first()
    if before is None or before.state == Run.FINISHED:
        return False
    training = before.training or Training.objects.create(workspace=run.workspace)
    pair = Run.objects.filter(pk__in=(before.pk, run.pk), training=None, training_is_edited=False)
    return pair.update(training=training) > 0


def not_joined(since: datetime) -> QuerySet[Run]:
    """Runs since then that may continue another one."""
    recent = Run.objects.present().ordinary().filter(training=None, training_is_edited=False)
    return recent.filter(last_received_at__gte=since).exclude(requeue="")


def _started_before(run: Run, at: datetime) -> RunQuerySet:
    same = Run.objects.present().ordinary().filter(job=run.job_id, requeue=run.requeue)
    return same.alias(began=began()).filter(began__lt=at).exclude(pk=run.pk)
