"""What each of some successive months cost, in a handful of queries for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from typing import Any

from django.db.models import Count, Q, Sum
from django.db.models.functions import TruncMonth

from webapp.accounts.models import Workspace
from webapp.runs.scope import runs_of
from webapp.spend.months import Month
from webapp.spend.scope import priced_parts_of
from webapp.spend.sums import Spend, between, cut_days, whole_days


def by_month(workspace: Workspace, months: Sequence[Month]) -> list[Spend]:
    """One of each month, in the order given; they must follow each other, the latest first.

    A run counts where it began; its cost where it held its machines.
    """
    runs = _runs(workspace, months)
    usd = dict(_usd(workspace, months))
    return [
        Spend(job=str(month), job_id=0, owner="", tags={}, usd=usd.get(month.first_day))
        .counting(runs.get(month.first_day, {}))
        for month in months
    ]  # fmt: skip


def _usd(workspace: Workspace, months: Sequence[Month]) -> Iterator[tuple[date, Decimal]]:
    """First day of a month -> what it cost; no entry: nothing that has a price."""
    parts = priced_parts_of(workspace)
    edges = [month.start for month in months] + [months[0].end]
    cut = list(cut_days(parts, *edges))
    whole = parts.filter(whole_days(months[-1].start, months[0].end)).order_by().values("day")
    days = {row["day"]: row["sum_usd"] for row in whole.annotate(sum_usd=Sum("usd"))}
    for part in cut:
        days.pop(part.day, None)
    for month in months:
        found = [usd for day, usd in days.items() if _is_within(month, day)]
        shares = (between(part, month.start, month.end) for part in cut)
        found += [usd for usd in shares if usd]
        if found:
            yield month.first_day, sum(found, Decimal(0))


def _is_within(month: Month, day: date) -> bool:
    return month.start.date() <= day < month.end.date()


def _runs(workspace: Workspace, months: Sequence[Month]) -> dict[date, dict[str, Any]]:
    """First day of a month -> counts of the runs that began in it."""
    span = {"started_at__gte": months[-1].start, "started_at__lt": months[0].end}
    began = TruncMonth("started_at", tzinfo=months[0].zone)
    billed = Q(billed_usd__isnull=False)
    grouped = (
        runs_of(workspace)
        .filter(**span)
        .select_related(None)
        .order_by()
        .values(month=began)
        .annotate(
            runs=Count("pk"),
            unpriced=Count("pk", filter=Q(cost_usd=None)),
            billed=Sum("billed_usd", filter=billed),
            counted=Sum("cost_usd", filter=billed),
        )
    )
    return {row["month"].date(): dict(row) for row in grouped}
