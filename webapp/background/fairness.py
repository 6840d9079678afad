"""Which due rows come next: the workspaces take turns, and none has all workers while others wait.

A row that a worker holds is its workspace's turn, used up. Nothing is kept about turns: they are
counted from the rows, each time.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Case, Count, Exists, F, Q, QuerySet, Value, When, Window
from django.db.models.functions import RowNumber

from webapp.background import conditions
from webapp.background.kinds import Kind, Row
from webapp.database.prepared import Slot

MOST_OF_ONE = max(settings.WORKER_PROCESSES - 1, 1)
"""How many rows of a kind one workspace may have under way while another one waits."""
COUNTED_FOR = timedelta(minutes=10)
"""Long work counts as under way for so long: its worker may have been killed."""
_ORDER = ("is_later", "due_at", "pk")


def in_turn(kind: Kind[Row], most: int, now: datetime) -> list[Any]:
    """The keys of at most `most` due rows: each workspace's urgent ones and then its longest
    waiting, in turn."""
    due = conditions.due(kind, now).annotate(is_later=_is_later(kind))
    if kind.workspace is None:
        # Without the first: all of them are later, and PostgreSQL sorts by no constant.
        order = _ORDER if kind.urgent is not None else _ORDER[1:]
        return list(due.order_by(*order).values_list(kind.key, flat=True)[:most])
    turn = Window(RowNumber(), partition_by=[F(kind.workspace)], order_by=[F(n) for n in _ORDER])
    first = due.order_by().annotate(turn=turn).filter(turn__lte=most)
    rows = first.values_list(kind.key, kind.workspace, "turn", "is_later", "due_at")
    used = _under_way(kind, now)
    waiting = sorted((used[w] + turn, later, due_at, key) for key, w, turn, later, due_at in rows)
    return [key for *_, key in waiting][:most]


def has_room(kind: Kind[Row], key: object, now: datetime | Slot, since: datetime | Slot) -> Q:
    """Whether a worker may begin with this row: others have left room for it.

    Args:
        since: `COUNTED_FOR` ago.
    """
    held = kind.rows.filter(leased_until__gte=now).exclude(**{kind.key: key})
    room = Q()
    if kind.limits.at_once is not None:
        room &= Q(~Exists(held.filter(began_at__gte=since)[kind.limits.at_once - 1 :]))
    if kind.limits.is_shared and kind.workspace is not None:
        own = {f"{kind.workspace}__in": kind.rows.filter(**{kind.key: key}).values(kind.workspace)}
        # The runs of others that are still going on count as well, so that a worker is free when
        # they need it.
        others = kind.rows.filter(conditions.is_open()).exclude(**own)
        room &= Q(~Exists(held.filter(**own)[MOST_OF_ONE - 1 :])) | Q(~Exists(others))
    return room


def _is_later(kind: Kind[Row]) -> Case:
    urgent = [] if kind.urgent is None else [When(kind.urgent, then=Value(False))]
    return Case(*urgent, default=Value(True))


def _under_way(kind: Kind[Row], now: datetime) -> Counter[Any]:
    """By workspace, how many rows workers hold."""
    rows: QuerySet[Any] = kind.rows.filter(conditions.is_open(), leased_until__gte=now).order_by()
    assert kind.workspace is not None  # noqa: S101 - asked only of kinds that have one
    return Counter(dict(rows.values_list(kind.workspace).annotate(rows=Count("pk"))))
