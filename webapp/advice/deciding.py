"""Decisions of people about recommendations: dismiss, snooze, follow by hand, and undo."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from webapp.accounts import audit
from webapp.advice.life_cycle import OPEN, queue_advice
from webapp.advice.models import Recommendation
from webapp.advice.settling import UNCLAIMED, settle
from webapp.runs import locks
from webapp.runs.editing.changes import Actor

MOST_SNOOZE = timedelta(days=366)
UNDONE = {
    "decided_by": "",
    "state_reason": "",
    "snoozed_until": None,
    "followed_since": None,
}


class DecisionError(ValueError):
    """Raised when the recommendation's state doesn't allow the decision. The message says why."""


def dismiss(row: Recommendation, by: Actor, reason: str) -> Recommendation:
    """Dismiss a recommendation, also for later runs. What runs saved by it isn't counted."""
    return _decide(row, by, Recommendation.DISMISSED, state_reason=reason)


def snooze(row: Recommendation, by: Actor, until: datetime) -> Recommendation:
    """Hide a recommendation from the open ones until then. Raises DecisionError: it isn't open,
    or the time isn't within the next year.
    """
    if not timezone.now() < until <= timezone.now() + MOST_SNOOZE:
        raise DecisionError("Choose a day within the next year.")
    _check_open(row)
    return _decide(row, by, Recommendation.SNOOZED, snoozed_until=until)


def follow(row: Recommendation, by: Actor) -> Recommendation:
    """Note that runs from now on follow it. Raises DecisionError: it isn't open."""
    _check_open(row)
    return _decide(row, by, Recommendation.CLAIMED, followed_since=timezone.now())


@transaction.atomic
def reopen(row: Recommendation, by: Actor) -> Recommendation:
    """Undo a person's decision; the runs tell its state again. Without one, nothing changes.

    Raises DecisionError: another one of its kind is open.
    """
    job, held = _locked(row)
    if not held.decided_by:
        return held
    others = Recommendation.objects.filter(job=job, dedupe_key=held.dedupe_key, state__in=OPEN)
    if others.exclude(pk=held.pk).exists():
        raise DecisionError("A newer recommendation of this kind is open.")
    _change(held, by, "reopened", state=Recommendation.ACTIVE, **UNCLAIMED, **UNDONE)
    settle(job)
    queue_advice(job)
    held.refresh_from_db()
    return held


def wake(now: datetime) -> int:
    """Open what was snoozed until now. Returns the number of recommendations."""
    due = Recommendation.objects.filter(state=Recommendation.SNOOZED, snoozed_until__lte=now)
    return due.update(state=Recommendation.ACTIVE, **UNDONE)


@transaction.atomic
def _decide(row: Recommendation, by: Actor, state: str, **values: Any) -> Recommendation:
    job, held = _locked(row)
    unclaimed = UNCLAIMED if state == Recommendation.DISMISSED else {}
    decided = {**UNDONE, "decided_by": audit.name_of(by), **values}
    _change(held, by, state, state=state, **unclaimed, **decided)
    if state == Recommendation.DISMISSED:
        held.savings.all().delete()
        held.not_followed_by.clear()
    settle(job)
    held.refresh_from_db()
    return held


def _check_open(row: Recommendation) -> None:
    if row.state not in OPEN:
        raise DecisionError("It isn't open.")
    if row.is_provisional:
        raise DecisionError("It is provisional until its run has ended.")


def _locked(row: Recommendation) -> tuple[Any, Recommendation]:
    """Lock the recommendation's job, and return both as they are then."""
    job = locks.job(row.job_id)
    return job, Recommendation.objects.select_related("run").get(pk=row.pk)


def _change(row: Recommendation, by: Actor, verb: str, **values: Any) -> None:
    before = row.state
    for name, value in values.items():
        setattr(row, name, value)
    row.changed_at = timezone.now()
    row.save()
    change = {"state": (before, row.state), "reason": ("", row.state_reason)}
    if row.snoozed_until is not None:
        change["until"] = ("", row.snoozed_until.isoformat())
    audit.record(row.job.workspace, by, f"recommendation.{verb}", f"{row.job}: {row.title}", change)
