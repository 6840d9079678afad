"""The spend of successive months, in a fixed number of queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from itertools import chain
from typing import Any

from django.db.models import Sum, Value

from webapp.accounts.models import Workspace
from webapp.runs.scope import runs_of
from webapp.spend.months import Month
from webapp.spend.scope import priced_parts_of
from webapp.spend.splitting import CutPart, cut_days, cut_to_span
from webapp.spend.sums import Spend, in_whole_days, run_counts


def by_month(workspace: Workspace, months: Sequence[Month]) -> list[Spend]:
    """Return one entry per month, in the given order: consecutive months, the latest first.

    A run is counted when it began. Its cost is counted when it held its machines.
    """
    runs = _runs(workspace, months)
    usd = usd_by_month(workspace, months)
    return [
        Spend(job=str(month), job_id=0, owner="", tags={}, usd=usd.get(month.first_day))
        .counting(runs.get(month.first_day, {}))
        for month in months
    ]  # fmt: skip


def usd_by_month(workspace: Workspace, months: Sequence[Month]) -> dict[date, Decimal]:
    """Return the cost by the first day of a month; no entry if no run has a price. `months` are as
    in `by_month`.
    """
    parts = priced_parts_of(workspace)
    edges = [month.start for month in months] + [months[0].end]
    cut = cut_days(parts, *edges)
    whole = parts.filter(in_whole_days(months[-1].start, months[0].end)).order_by()
    days = whole.values_list("day").annotate(Sum("usd"))
    cut_by_day: defaultdict[date, list[CutPart]] = defaultdict(list)
    for part in cut:
        cut_by_day[part.day].append(part)
    amounts: defaultdict[date, list[Decimal]] = defaultdict(list)
    for day, usd in days:
        # Local months begin within a day of UTC's, so only split days belong to two months.
        if day not in cut_by_day:
            amounts[day.replace(day=1)].append(usd)
    for month in months:
        start, end = month.start, month.end
        # Split days are those of edges.
        touched = chain(cut_by_day[start.date()], cut_by_day[end.date()])
        split = (cut_to_span(part, start, end) for part in touched)
        amounts[month.first_day] += [usd for usd in split if usd]
    return {day: sum(amounts[day], Decimal(0)) for day in amounts if amounts[day]}


def _runs(workspace: Workspace, months: Sequence[Month]) -> dict[date, dict[str, Any]]:
    """Return the number of runs that began in a month, by its first day."""
    runs = runs_of(workspace).select_related(None).order_by()
    # Each month is a range of an index. A single query would have to place and sort every run.
    first, *others = [
        runs.filter(started_at__gte=month.start, started_at__lt=month.end)
        .values("workspace")
        .annotate(place=Value(place), **run_counts())
        for place, month in enumerate(months)
    ]
    return {months[row["place"]].first_day: dict(row) for row in first.union(*others, all=True)}
