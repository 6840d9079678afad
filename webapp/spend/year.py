"""The spend of successive months, in a fixed number of queries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from django.db.models import Case, Count, Q, Sum, When

from webapp.accounts.models import Workspace
from webapp.runs.scope import runs_of
from webapp.spend.months import Month
from webapp.spend.scope import priced_parts_of
from webapp.spend.splitting import between, cut_days
from webapp.spend.sums import Spend, in_whole_days


def by_month(workspace: Workspace, months: Sequence[Month]) -> list[Spend]:
    """One entry per month, in the given order: consecutive months, the latest first.

    A run is counted when it began. Its cost is counted when it held its machines.
    """
    runs = _runs(workspace, months)
    usd = dict(_usd(workspace, months))
    return [
        Spend(job=str(month), job_id=0, owner="", tags={}, usd=usd.get(month.first_day))
        .counting(runs.get(month.first_day, {}))
        for month in months
    ]  # fmt: skip


def _usd(workspace: Workspace, months: Sequence[Month]) -> Iterator[tuple[date, Decimal]]:
    """First day of a month -> its cost; no entry: no run has a price."""
    parts = priced_parts_of(workspace)
    edges = [month.start for month in months] + [months[0].end]
    cut = cut_days(parts, *edges)
    whole = parts.filter(in_whole_days(months[-1].start, months[0].end)).order_by().values("day")
    days = whole.exclude(day__in={part.day for part in cut}).annotate(sum_usd=Sum("usd"))
    usd_by_month: defaultdict[date, list[Decimal]] = defaultdict(list)
    for row in days:
        # Local months begin within a day of UTC's, so only split days belong to two months.
        usd_by_month[row["day"].replace(day=1)].append(row["sum_usd"])
    for month in months:
        amounts, start, end = usd_by_month[month.first_day], month.start, month.end
        # The UTC days that may overlap it.
        touched = (part for part in cut if start.date() <= part.day <= end.date())
        amounts += [usd for usd in (between(part, start, end) for part in touched) if usd]
        if amounts:
            yield month.first_day, sum(amounts, Decimal(0))


def _runs(workspace: Workspace, months: Sequence[Month]) -> dict[date, dict[str, Any]]:
    """First day of a month -> number of runs that began in it."""
    span = {"started_at__gte": months[-1].start, "started_at__lt": months[0].end}
    # The latest month start before the run's start. SQL can't do time zones portably.
    began = Case(*(When(started_at__gte=month.start, then=n) for n, month in enumerate(months)))
    billed = Q(billed_usd__isnull=False)
    grouped = (
        runs_of(workspace)
        .filter(**span)
        .select_related(None)
        .order_by()
        .values(place=began)
        .annotate(
            runs=Count("pk"),
            unpriced=Count("pk", filter=Q(cost_usd=None)),
            billed=Sum("billed_usd", filter=billed),
            counted=Sum("cost_usd", filter=billed),
        )
    )
    return {months[row["place"]].first_day: dict(row) for row in grouped}
