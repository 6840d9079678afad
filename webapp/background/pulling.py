"""Workers pull: one that is woken claims due rows one after the other, until nothing is due.

A row is leased when work on it begins, not before. So a worker that is killed costs its own row one
of its kills, and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any

from django.db import connection
from django.db.models import CharField, Count, DateTimeField, Min, Value
from django.utils import timezone

from webapp.background import conditions, fairness, waking
from webapp.background.kinds import Row, WorkKind, all_kinds, kind_called
from webapp.background.time_limit import time_limit
from webapp.database import prepared
from webapp.database.prepared import PreparedStatement, Slot

TURN_SECONDS = 5.0
"""The time after which a worker begins nothing new: it takes the next message, which may be the
schedule's, and can end or be replaced in between."""
SLICE_SECONDS = 1.0
"""The same for a kind while rows of other kinds are due."""
MOST_LISTED = 50
QUIET_SECONDS = 1.0
"""The time after a pull that could begin nothing for which this process wakes nobody before it has
begun something. Its message would come back to itself repeatedly until the others are done."""

_quiet_until = 0.0
"""Monotonic seconds."""


def pull() -> int:
    """Work on what is due, for a turn. Returns the number of rows, or batches of rows."""
    global _quiet_until
    waking.is_awake()
    ends_at = time.monotonic() + TURN_SECONDS
    worked, has_woken = 0, False
    while due := _due(timezone.now()):
        is_quiet = time.monotonic() < _quiet_until
        if not is_quiet and not has_woken and sum(rows for _, rows in due) > 1:
            waking.wake()
            has_woken = True
        now_worked = sum(_work(kind, ends_at) for kind, _ in due)
        worked += now_worked
        if now_worked:
            _quiet_until = 0.0
        if time.monotonic() >= ends_at:
            waking.wake()
            break
        if not now_worked:
            # The rest is held by others, or has to leave room for others.
            if not worked:
                _quiet_until = time.monotonic() + QUIET_SECONDS
            break
    return worked


def sweep() -> bool:
    """Give up the rows that killed too many workers, and wake a worker if any row is due. Returns
    whether one is."""
    now = timezone.now()
    for kind in all_kinds():
        _give_up_worn_out(kind, now)
    is_due = bool(_due(now))
    if is_due:
        waking.wake()
    return is_due


def _due(now: datetime) -> list[tuple[WorkKind[Any], int]]:
    """Return the kinds with due rows and how many these are, the longest waiting kind first."""
    _, counted = _counting(connection.vendor).execute(now=now)
    found = sorted(each for each in counted if each[2])
    return [(kind, rows) for _, kind_id, rows in found if (kind := kind_called(kind_id))]


@cache
def _counting(_vendor: str) -> PreparedStatement:
    """Return the statement that reads, for each kind, since when its rows are due, its id, and how
    many they are.
    """
    counted = [
        conditions.due_rows(kind, Slot("now", DateTimeField()))
        .order_by()
        .annotate(kind_id=Value(kind.id, output_field=CharField()))
        .values("kind_id")
        .annotate(since=Min("due_at"), rows=Count("pk"))
        .values_list("since", "kind_id", "rows")
        for kind in all_kinds()
    ]
    return prepared.select(counted[0].union(*counted[1:], all=True))


def _work(kind: WorkKind[Any], ends_at: float) -> int:
    """Work on some rows of a kind. Returns how many rows, or batches of rows, could be claimed."""
    ends_at = min(ends_at, time.monotonic() + SLICE_SECONDS)
    worked = missed = 0
    most = kind.limits.at_once
    for named in _named(kind):
        with time_limit(kind.limits.longest):
            has_worked = kind.carry_out(named, due_at__lte=timezone.now())
        worked += has_worked
        missed += not has_worked
        # Other workers took so many at most. So there was no room for one, and there is none now.
        is_full = most is not None and missed > most
        if is_full or time.monotonic() >= ends_at:
            break
    return worked


def _named(kind: WorkKind[Any]) -> Iterator[Any]:
    """Yield the arguments of its `carry_out`, in turn."""
    keys = fairness.in_turn(kind, MOST_LISTED, timezone.now())
    size = kind.limits.batch
    if size == 1:
        yield from keys
    else:
        yield from (keys[start : start + size] for start in range(0, len(keys), size))


def _give_up_worn_out(kind: WorkKind[Row], now: datetime) -> None:
    """Give up the rows that killed too many workers. The lease is kept: if the last worker was only
    slow, its result counts.
    """
    worn_out = conditions.worn_out(kind, now)
    if worn_out.exists():
        error = f"Given up: {kind.limits.max_kills} workers died while they worked on it."
        worn_out.update(given_up_at=now, error=error, **kind.given_up)
