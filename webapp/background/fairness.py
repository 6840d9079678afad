"""Chooses which due rows come next: the workspaces take turns, and none has all workers while
others wait.

A row that a worker holds is its workspace's turn, used up. Nothing is kept about turns: they are
counted from the rows, each time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import (
    Case,
    Count,
    Exists,
    F,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
    When,
    Window,
)
from django.db.models.functions import RowNumber
from django.db.models.lookups import IsNull

from webapp.background import conditions
from webapp.background.kinds import Row, WorkKind
from webapp.database.prepared import Slot

MOST_OF_ONE = max(settings.WORKER_PROCESSES - 1, 1)
"""The most rows of a kind that one workspace may have under way while another one waits."""
COUNTED_FOR = timedelta(minutes=10)
"""The time since a worker last renewed its lease within which it counts as being at a row: later,
it may be gone."""
OVERDUE = timedelta(seconds=10)
"""The time past its due time after which a row no longer waits for all urgent ones."""
_URGENT, _OVERDUE, _LATER = range(3)


def in_turn(kind: WorkKind[Row], most: int, now: datetime) -> list[Any]:
    """Return the keys of at most `most` due rows, of each workspace in turn, the longest waiting
    first.

    Of one workspace urgent rows come first, but each lets some overdue ones pass
    (`Kind.beside_urgent`): none waits for all of many urgent ones.
    """
    due = conditions.due_rows(kind, now).order_by()
    if kind.workspace is None:
        return list(due.order_by("due_at", "pk").values_list(kind.key, flat=True)[:most])
    # The owner is looked up for each row: PostgreSQL guesses that a third of all rows are due, and
    # would join these with all runs that there are.
    owner = Subquery(kind.rows.filter(pk=OuterRef("pk")).values(kind.workspace)[:1])
    ranked = due.annotate(owner=owner, rank=_rank(kind, now))
    place = Window(RowNumber(), [F("owner"), F("rank")], order_by=[F("due_at"), F("pk")])
    first = ranked.annotate(place=place).filter(place__lte=most)
    backlogs: dict[Any, list[Any]] = defaultdict(list)
    for workspace, *row in first.values_list("owner", "rank", "place", "due_at", kind.key):
        backlogs[workspace].append(row)
    used = _under_way(kind, now)
    waiting = [
        (used[workspace] + turn, *row)
        for workspace, backlog in backlogs.items()
        for turn, row in enumerate(sorted(map(partial(_turn, kind), backlog)))
    ]
    return [key for *_, key in sorted(waiting)][:most]


def _turn(kind: WorkKind[Any], row: Sequence[Any]) -> tuple[Any, ...]:
    """Return the values by which a workspace's rows are sorted, and the key."""
    rank, place, due_at, key = row
    passed = (place - 1) * (kind.beside_urgent if rank == _URGENT else 1)
    return rank == _LATER, passed, rank, due_at, key


def counted_from(kind: WorkKind[Any], now: datetime) -> datetime:
    """Return the end of a lease that was taken or renewed `COUNTED_FOR` ago."""
    return now - COUNTED_FOR + kind.limits.lease


def has_room(
    kind: WorkKind[Row],
    key: object,
    now: datetime | Slot,
    lease: UUID | Slot,
    counted: datetime | Slot,
) -> Q:
    """Return the condition that a worker may begin with this row because others have left room for
    it.

    Args:
        lease: the lease that the worker is going to hold, maybe beside other rows.
        counted: see `counted_from`.
    """
    held = kind.rows.filter(conditions.is_held(now)).exclude(**{kind.key: key})
    room = Q()
    if kind.limits.at_once is not None:
        heard = held.filter(leased_until__gte=counted).exclude(lease=lease)
        leases = heard.order_by().values("lease").distinct()
        room &= Q(~Exists(leases[kind.limits.at_once - 1 :]))
    if kind.limits.is_shared and kind.workspace is not None:
        own = {f"{kind.workspace}__in": kind.rows.filter(**{kind.key: key}).values(kind.workspace)}
        # The runs of others that are still going on count as well, so that a worker is free when
        # they need it.
        others = kind.rows.filter(conditions.is_open(), conditions.due_or_later()).exclude(**own)
        full = _full(held, kind.workspace)
        room &= ~Q(**{f"{kind.workspace}__in": full}) | Q(_is_empty(others))
    return room


def _full(held: QuerySet[Any], workspace: str) -> Any:
    """Return the workspaces that have as many rows under way as they may, counted from the few held
    rows: asked about one workspace, PostgreSQL would look for held ones among all that it has.
    """
    counted = held.order_by().values(workspace).annotate(rows=Count("pk"))
    return counted.filter(rows__gte=MOST_OF_ONE).values(workspace)


def _is_empty(rows: QuerySet[Any]) -> IsNull:
    """Return the condition that there are no such rows. They are looked for in the order of an
    index: in any other PostgreSQL expects to find one soon, and reads all runs if there is none.
    """
    return IsNull(Subquery(rows.order_by("due_at").values("pk")[:1]), True)


def _rank(kind: WorkKind[Row], now: datetime) -> Case:
    urgent = [] if kind.urgent is None else [When(kind.urgent, then=Value(_URGENT))]
    overdue = When(due_at__lte=now - OVERDUE, then=Value(_OVERDUE))
    return Case(*urgent, overdue, default=Value(_LATER))


def _under_way(kind: WorkKind[Row], now: datetime) -> Counter[Any]:
    """Return how many rows workers hold, by workspace."""
    rows: QuerySet[Any] = kind.rows.filter(conditions.is_open(), conditions.is_held(now)).order_by()
    assert kind.workspace is not None  # noqa: S101 - asked only of kinds that have one
    return Counter(dict(rows.values_list(kind.workspace).annotate(rows=Count("pk"))))
