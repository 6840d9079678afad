"""The runs of a workspace that have no price: they cost an unknown amount, never nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Case, Count, F, Q, Value, When, Window

from webapp.accounts.models import Workspace
from webapp.runs.models import Run
from webapp.runs.scope import runs_of
from webapp.spend.months import Month

DAYS = 30
_OF_NEWEST = ("number", "started_at", "summary", "job__name")
"""The columns that are read of the newest one: its row is wide."""


@dataclass(frozen=True)
class UnpricedRuns:
    """Counts of runs without a price."""

    newest: Run | None = None
    """The newest one of the last DAYS days that an analysis found no price for; None: there is
    none."""
    recent_count: int = 0
    """The number of those."""
    month_count: int = 0
    """The number of this month's runs without a price, or without an analysis yet."""
    then_count: int = 0
    """The same for the month before, up to the same moment."""


def unpriced_runs(workspace: Workspace, month: Month, now: datetime) -> UnpricedRuns:
    """Return the counts, by one query."""
    earlier, recent = month.months_later(-1).start, now - timedelta(days=DAYS)
    then = min(earlier + (now - month.start), month.start)
    is_found = Q(started_at__gte=recent, analysis__done__gt=0)
    runs = runs_of(workspace).filter(cost_usd=None, started_at__gte=min(earlier, recent))
    counted = runs.filter(started_at__lte=now).annotate(
        place=Case(When(is_found, then=Value(0)), default=Value(1)),
        recent_count=Window(Count(Case(When(is_found, then=F("pk"))))),
        month_count=Window(Count(Case(When(started_at__gte=month.start, then=F("pk"))))),
        then_count=Window(Count(Case(When(_within(earlier, then), then=F("pk"))))),
    )
    first: Any = counted.only(*_OF_NEWEST).order_by("place", "-started_at").first()
    if first is None:
        return UnpricedRuns()
    newest = first if first.recent_count else None
    return UnpricedRuns(newest, first.recent_count, first.month_count, first.then_count)


def _within(start: datetime, end: datetime) -> Q:
    return Q(started_at__gte=start, started_at__lt=end)
