"""The queue of imports. The rows are background work."""

from __future__ import annotations

from datetime import timedelta

from django.db import transaction
from django.db.models import QuerySet
from django.urls import reverse

from advisor.importers.bounds import BOUNDS
from webapp.background import claims, conditions, fairness, waking
from webapp.background.kinds import WorkKind, WorkLimits
from webapp.imports import allowance, run_states
from webapp.imports.models import PART, PROFILE, WHOLE, Import
from webapp.runs.models import Artefact, Run

SIDE_BY_SIDE = 4
"""Conversions of different workspaces that one worker hosts at once."""
MOST_SECONDS, MOST_CPU_SECONDS = 3600, 1800
"""The time after which a conversion is ended."""
MOST_UNPACKED_BYTES = BOUNDS.unpacked_bytes
KIND = WorkKind(
    id="import",
    title="Import",
    model=Import,
    work="webapp.imports.tasks.convert",
    key="artefact_id",
    limits=WorkLimits(
        lease=timedelta(minutes=2),
        max_attempts=3,
        first_pause=timedelta(seconds=30),
        longest_pause=timedelta(minutes=5),
        # The limit is that of one turn of a host: its conversions have limits of their own.
        longest=timedelta(minutes=5),
        # A conversion may take minutes: other work always has a worker.
        at_once=fairness.MOST_OF_ONE,
    ),
    workspace="artefact__run__workspace",
    subject=lambda row: f"{row.artefact.name} into {row.artefact.run}",
    address=lambda row: reverse("dashboard:run", args=[row.artefact.run_id]),
    related=("artefact__run__job",),
    shown={"artefact__run__deleted_at": None, "artefact__run__job__deleted_at": None},
)


def artefact_arrived(artefact: Artefact) -> None:
    """Queue what can be converted now. Call in the transaction that wrote the artefact."""
    if artefact.kind in (WHOLE, PROFILE):
        Import.objects.get_or_create(artefact=artefact)
        _want(Import.objects.filter(artefact=artefact))
        run_states.settle(Run.objects.filter(pk=artefact.run_id))
    elif artefact.kind == PART:
        _want(Import.objects.filter(conditions.has_news(), artefact__run=artefact.run))


def convert_again(artefact: Artefact) -> None:
    """Convert an upload again, because somebody sent it again: one that failed, or whose operators
    an earlier version kept without their times.

    Raises:
        Problem: 429 beyond a quota of imports.
    """
    rows = Import.objects.filter(artefact=artefact)
    outdated = rows.filter(operator_times__isnull=True).exclude(result={})
    if rows.filter(conditions.has_news()).exclude(given_up_at=None).exists() or outdated.exists():
        queue_again(rows, artefact)


def queue_again(rows: QuerySet[Import], artefact: Artefact) -> None:
    """Queue the import of an upload again.

    Raises:
        Problem: 429 beyond a quota of imports.
    """
    allowance.check_kind(artefact.run.workspace, artefact.kind)
    with transaction.atomic():
        _want(rows)
    run_states.settle(Run.objects.filter(pk=artefact.run_id))


def _want(rows: QuerySet[Import]) -> None:
    keys = list(rows.values_list("pk", flat=True))
    if keys:
        claims.mark_due(Import.objects.filter(pk__in=keys), error="")
        waking.wake_on_commit(KIND, pk__in=keys)
