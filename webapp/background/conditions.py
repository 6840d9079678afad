"""The states of a row of background work, one query expression each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from django.db.models import Case, CharField, F, Field, Q, QuerySet, Value, When

from webapp.background.kinds import Row, WorkKind
from webapp.database.prepared import Slot

STATES = FAILED, UNDER_WAY, RETRY, DUE, DONE = "failed", "under_way", "retry", "due", "done"


def has_news() -> Q:
    """Select rows for which more has arrived than the last worker saw."""
    return Q(wanted__gt=F("done"))


def due_or_later() -> Q:
    """Select the same rows as `has_news`, by the index of due work, which is short."""
    return has_news() & Q(due_at__gt=datetime.min.replace(tzinfo=UTC))


def is_open() -> Q:
    """Select pending rows that were not given up."""
    return has_news() & Q(given_up_at=None)


def unheld(now: datetime | Slot) -> Q:
    """Select rows that no worker holds, or whose lease has expired."""
    return Q(leased_until=None) | Q(leased_until__lt=now)


def is_held(now: datetime | Slot) -> Q:
    """Select rows that a worker holds. That such a row has a lease is said twice: PostgreSQL
    guesses that a third of all rows have a later one than a time that it doesn't know yet.
    """
    return Q(leased_until__isnull=False) & Q(leased_until__gte=now)


def claimable_rows(kind: WorkKind[Row], now: datetime | Slot) -> QuerySet[Row]:
    """Return the rows that a worker may claim, due or not."""
    return kind.rows.filter(is_open(), unheld(now), kills__lt=kind.limits.max_kills)


def due_rows(kind: WorkKind[Row], now: datetime | Slot) -> QuerySet[Row]:
    """Return the due rows that a worker should claim, longest waiting first."""
    return claimable_rows(kind, now).filter(due_at__lte=now).order_by("due_at")


def worn_out(kind: WorkKind[Row], now: datetime) -> QuerySet[Row]:
    """Return the rows on which too many workers died, and that were not given up yet."""
    return kind.rows.filter(is_open(), unheld(now), kills__gte=kind.limits.max_kills)


def state(now: datetime) -> Case:
    """Return the state of a row, as people see it. Doesn't depend on the limits of its kind."""
    return by_state(now, {each: Value(each) for each in STATES}, CharField())


def by_state(now: datetime, results: Mapping[str, Value | F], output: Field[Any, Any]) -> Case:
    """Return the result for the state of each row."""
    tried = Q(attempts__gt=0) | Q(kills__gt=0) | Q(lease__isnull=False)
    return Case(
        When(wanted__lte=F("done"), then=results[DONE]),
        When(leased_until__gte=now, then=results[UNDER_WAY]),
        When(given_up_at__isnull=False, then=results[FAILED]),
        When(tried, then=results[RETRY]),
        default=results[DUE],
        output_field=output,
    )
