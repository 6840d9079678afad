"""Sums what each budget's runs spent on each UTC day of the last months."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from django.db.models import DateField, F, Q, QuerySet, Sum, Value
from django.db.models.functions import Coalesce, Greatest

from advisor.costing.forecast import HISTORY
from webapp.accounts.models import Workspace
from webapp.analysis.models import CostPart
from webapp.runs.tag_value import TagValue
from webapp.spend.models import Budget
from webapp.spend.scope import priced_parts_of

WHOLE = ("workspace", "")
"""The kind and tag's key of a workspace's own budget."""


@dataclass
class Daily:
    """Spend by day; a day that is missing cost nothing."""

    usd: defaultdict[date, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    usual_usd: defaultdict[date, Decimal] = field(default_factory=lambda: defaultdict(Decimal))
    """The spend without probes, which have no rhythm."""
    first_day: date | None = None
    """The first day with usual spend, or the last day before the history if that was earlier; None
    if there is none."""

    def add(self, row: dict[str, Any], since: date) -> None:
        day, usual = row["since"], row["usual_usd"]
        if day > since:
            self.usd[day] += row["sum_usd"]
        if usual is not None:
            self.first_day = min(day, self.first_day or day)
            if day > since:
                self.usual_usd[day] += usual


def daily_spends(workspace: Workspace, budgets: Sequence[Budget], now: datetime) -> list[Daily]:
    """Return each budget's spend until `now`: in a query for jobs, and one for each tag's key,
    which have all runs, or one for the workspace.
    """
    today = now.astimezone(UTC).date()
    since = today - HISTORY
    parts = priced_parts_of(workspace).filter(day__lte=today).order_by()
    # The days before the history count as one: only whether there was any matters.
    floor = Value(since, output_field=DateField())
    parts = parts.annotate(since=Greatest(F("day"), floor))
    found: defaultdict[tuple[str, str, object], Daily] = defaultdict(Daily)
    asked = {(each.kind, each.tag_key) for each in budgets}
    tags = sorted(each for each in asked if each[0] == "tag")
    if tags:
        asked.discard(WHOLE)
    for kind, key in sorted(asked):
        own = [each for each in budgets if (each.kind, each.tag_key) == (kind, key)]
        for row in _grouped(parts, kind, key, own):
            found[kind, key, row.get("of")].add(row, since)
            if [(kind, key)] == tags[:1]:
                found[*WHOLE, None].add(row, since)
    return [found[each.kind, each.tag_key, _value(each)] for each in budgets]


def _grouped(
    parts: QuerySet[CostPart], kind: str, key: str, budgets: Iterable[Budget]
) -> Iterator[dict[str, Any]]:
    """Yield the sums by day, and by job or the tag's value: a run's own overrides its job's."""
    groups = ["since"] if kind == "workspace" else ["since", "of"]
    if kind == "job":
        parts = parts.filter(run__job__in=[each.job_id for each in budgets])
        parts = parts.annotate(of=F("run__job_id"))
    elif kind == "tag":
        own, jobs = TagValue("run__tags", key), TagValue("run__job__tags", key)
        parts = parts.annotate(of=Coalesce(own, jobs))
    usual = Sum("usd", filter=Q(run__probe__isnull=True))
    yield from parts.values(*groups).annotate(sum_usd=Sum("usd"), usual_usd=usual)


def _value(budget: Budget) -> object:
    return {"workspace": None, "job": budget.job_id, "tag": budget.tag_value}[budget.kind]
