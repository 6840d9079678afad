"""Which due rows come next: the workspaces take turns, and none has all workers while others wait.

A row that lies with the broker or with a worker is its workspace's turn, used up. Nothing is kept
about turns: they are counted from the rows, each time.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import Count, F, Q, QuerySet, Window
from django.db.models.functions import RowNumber

from webapp.background import conditions
from webapp.background.kinds import Kind, Row

MOST_OF_ONE = max(settings.WORKER_PROCESSES - 1, 1)
"""How many rows of a kind one workspace may have under way while another one waits."""


def in_turn(kind: Kind[Row], idle: QuerySet[Row], most: int, now: datetime) -> list[Any]:
    """The keys of at most `most` of the idle rows: each workspace's longest waiting, in turn."""
    if kind.workspace is None or most <= 0:
        return list(idle.values_list(kind.key, flat=True)[: max(most, 0)])
    turn = Window(RowNumber(), partition_by=[F(kind.workspace)], order_by=[F("due_at"), F("pk")])
    first = idle.order_by().annotate(turn=turn).filter(turn__lte=most)
    rows = list(first.values_list(kind.key, kind.workspace, "turn", "due_at"))
    used = _in_flight(kind, now)
    waiting = sorted((used[w] + turn, due_at, key) for key, w, turn, due_at in rows)
    if kind.limits.is_shared and _many_wait(kind):
        waiting = [place for place in waiting if place[0] <= MOST_OF_ONE]
    return [key for _, _, key in waiting][:most]


def may_begin(kind: Kind[Row], key: object, now: datetime) -> bool:
    """Whether a worker may take this row: its workspace has not used up its share."""
    if not kind.limits.is_shared or kind.workspace is None or not _many_wait(kind):
        return True
    own = kind.rows.filter(**{kind.key: key}).values(kind.workspace)
    held = kind.rows.filter(leased_until__gte=now, **{f"{kind.workspace}__in": own})
    return held.exclude(**{kind.key: key}).count() < MOST_OF_ONE


def _many_wait(kind: Kind[Any]) -> bool:
    """Whether several workspaces have something to do, now or when it is due: the runs of each one
    that are still going on count as well, so that a worker is free when they need it."""
    assert kind.workspace is not None  # noqa: S101 - asked only of kinds that have one
    rows = kind.rows.filter(conditions.is_open()).order_by()
    return len(rows.values_list(kind.workspace).distinct()[:2]) > 1


def _in_flight(kind: Kind[Row], now: datetime) -> Counter[Any]:
    """By workspace, how many rows lie with the broker or with a worker."""
    recently = now - kind.limits.hand_out_again_after
    taken = Q(queued_at__gte=recently) | Q(leased_until__gte=now)
    rows = kind.rows.filter(conditions.is_open(), taken).order_by()
    assert kind.workspace is not None  # noqa: S101 - asked only of kinds that have one
    counted = rows.values_list(kind.workspace).annotate(rows=Count("pk"))
    return Counter(dict(counted))
