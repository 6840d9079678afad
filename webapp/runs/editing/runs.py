"""Edits a run: note, owner, tags, use as a baseline, billed amount."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django.db import transaction
from django.utils import timezone

from webapp.accounts import audit
from webapp.runs import locks
from webapp.runs.editing.changes import Actor, Change, apply, changes, to_json
from webapp.runs.models import Run
from webapp.runs.signals import history_changed

COUNTS = {"is_excluded", "is_pinned"}


@transaction.atomic
def edit(run: Run, by: Actor, values: Mapping[str, Any]) -> Run:
    """Set what `values` has of note, owner, tags, is_excluded and is_pinned.

    Later declarations of agents don't change an owner or tag set here. If the run's use as a
    baseline changes, later runs are judged again.
    """
    held = locks.run(run.pk)
    change = changes(held, values)
    if not change:
        return held
    apply(held, change)
    held.owner_is_edited = held.owner_is_edited or "owner" in change
    held.edited_tags = sorted({*held.edited_tags, *_touched(change)})
    held.save(update_fields=[*change, "owner_is_edited", "edited_tags"])
    audit.record(held.workspace, by, "run.edited", str(held), change)
    if COUNTS & change.keys():
        history_changed.send(sender=Run, job=held.job, since=held.began_at)
    return held


@transaction.atomic
def bill(run: Run, by: Actor, usd: Decimal | None) -> Run:
    """Store what the provider billed for the run; None removes the amount."""
    held = locks.run(run.pk)
    change = changes(held, {"billed_usd": usd})
    if not change:
        return held
    apply(held, change)
    entered = (audit.name_of(by), timezone.now())
    held.billed_by, held.billed_at = ("", None) if usd is None else entered
    held.save(update_fields=["billed_usd", "billed_by", "billed_at"])
    audit.record(held.workspace, by, "run.billed", str(held), to_json(change))
    return held


def _touched(change: Change) -> set[str]:
    """Return the keys of the tags that were set, changed or removed."""
    before, after = change.get("tags", ({}, {}))
    return {key for key in {*before, *after} if before.get(key) != after.get(key)}
