"""The background work of a workspace, as its owners see it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import CharField, DateTimeField, F, IntegerField, Q, QuerySet, Value
from django.utils.timesince import timeuntil

from webapp.accounts.models import Workspace
from webapp.background import conditions
from webapp.background.kinds import WorkKind, all_kinds, kind_called
from webapp.background.lag import Lag, lag, waiting_since
from webapp.background.models import Claimable

RECENT = timedelta(days=1)
"""The time for which finished work stays in the list."""
PAGE_ITEMS = 50
WORDS = {
    conditions.FAILED: "Failed",
    conditions.UNDER_WAY: "Under way",
    conditions.RETRY: "Waiting for retry",
    conditions.DUE: "Due",
    conditions.DONE: "Done",
}
"""State -> its title, in the order of the list."""
_RANKS = {state: Value(rank) for rank, state in enumerate(WORDS)}
_MOMENTS = {
    conditions.FAILED: F("given_up_at"),
    conditions.UNDER_WAY: F("began_at"),
    conditions.RETRY: F("due_at"),
    conditions.DUE: F("due_at"),
    conditions.DONE: F("finished_at"),
}
"""The time at which each state began."""


@dataclass(frozen=True)
class WorkItem:
    """One piece of work."""

    kind: WorkKind[Any]
    row: Claimable
    state: str
    now: datetime

    @property
    def state_words(self) -> str:
        return WORDS[self.state]

    @property
    def subject(self) -> str:
        return self.kind.subject(self.row)

    @property
    def address(self) -> str:
        return self.kind.address(self.row)

    @property
    def max_attempts(self) -> int:
        return self.kind.limits.max_attempts

    @property
    def was_tried(self) -> bool:
        """Return whether an attempt failed since the last success."""
        return self.row.attempts > 0 or self.row.kills > 0

    @property
    def next_try(self) -> str:
        """Return when the work will be tried, as text; empty if it won't be."""
        if self.state not in (conditions.DUE, conditions.RETRY):
            return ""
        if self.row.due_at <= self.now:
            return "Now"
        return f"in {timeuntil(self.row.due_at, self.now, depth=1)}"

    @property
    def may_be_tried_again(self) -> bool:
        return self.state == conditions.FAILED and self.kind.may_be_tried_again


@dataclass(frozen=True)
class Lateness:
    """Lag of one kind of work."""

    kind: WorkKind[Any]
    lag: Lag | None
    """The lag in all workspaces; None if nothing was done lately."""
    waiting_seconds: float | None
    """The seconds for which the oldest arrival of this workspace has waited; None if nothing
    waits."""


def lags(workspace: Workspace, now: datetime) -> list[Lateness]:
    """Return the lag of each kind that people wait for."""
    found = []
    for kind in all_kinds():
        if kind.lag_title:
            since = waiting_since(_own(workspace, kind, conditions.due_or_later()), now)
            waiting = None if since is None else max((now - since).total_seconds(), 0.0)
            found.append(Lateness(kind, lag(kind, now.timestamp()), waiting))
    return found


def items(
    workspace: Workspace,
    kinds: Iterable[WorkKind[Any]],
    state: str,
    number: str | None,
    now: datetime,
) -> Page[WorkItem]:
    """Return a page of work that is waiting, running, given up, or recently done.

    Args:
        state: one of `WORDS`; empty: all.
        number: the page number; an invalid one gives the first page.
    """
    listed = [_listed(workspace, kind, state, now) for kind in kinds]
    everything = listed[0].union(*listed[1:], all=True).order_by("rank", "-moment", "kind_id", "pk")
    page: Page[Any] = Paginator(everything, PAGE_ITEMS).get_page(number)
    page.object_list = _read(workspace, list(page.object_list), now)
    return page


def _listed(
    workspace: Workspace, kind: WorkKind[Any], state: str, now: datetime
) -> QuerySet[Any, tuple[Any, ...]]:
    """Sort position and id of each listed row of a kind."""
    rank = conditions.by_state(now, _RANKS, IntegerField())
    moment = conditions.by_state(now, _MOMENTS, DateTimeField())
    is_listed = conditions.has_news() | Q(finished_at__gte=now - RECENT)
    places: QuerySet[Any, tuple[Any, ...]] = (
        _own(workspace, kind, is_listed)
        .annotate(kind_id=Value(kind.id, output_field=CharField()), rank=rank, moment=moment)
        .values_list("kind_id", "pk", "rank", "moment")
    )
    return places.filter(rank=_RANKS[state].value) if state else places


def _own(workspace: Workspace, kind: WorkKind[Any], chosen: Q) -> QuerySet[Any, Any]:
    """Return the chosen rows of the workspace. They are chosen among the rows of all workspaces
    first, because most rows of most workspaces are done.
    """
    return kind.rows_of(workspace).filter(pk__in=kind.rows.filter(chosen).values("pk"))


def _read(workspace: Workspace, places: list[tuple[Any, ...]], now: datetime) -> list[WorkItem]:
    """Return the rows, with one query per kind."""
    rows: dict[tuple[str, int], WorkItem] = {}
    for kind_id in sorted({place[0] for place in places}):
        kind = kind_called(kind_id)
        assert kind is not None  # noqa: S101 - it is from the list
        own = [pk for listed_kind, pk, *_ in places if listed_kind == kind_id]
        own_rows = kind.rows_of(workspace).filter(pk__in=own).select_related(*kind.related)
        for row in own_rows.annotate(work_state=conditions.state(now)):
            rows[kind_id, row.pk] = WorkItem(kind, row, row.work_state, now)
    return [rows[place[0], place[1]] for place in places if (place[0], place[1]) in rows]
