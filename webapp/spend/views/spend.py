"""Spend by job, owner, tag or month, as a page and as CSV."""

from __future__ import annotations

import csv
from datetime import UTC, timedelta

from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.analysis.models import CostPart
from webapp.analysis.selectors.old_prices import old_prices_of
from webapp.http.downloads import plain_cell
from webapp.spend import months
from webapp.spend.bars import month_bars
from webapp.spend.scope import priced_parts_of
from webapp.spend.table import BY, JOB, SpendLine, Table, table

COLUMNS = (
    "runs",
    "unpriced_runs",
    "usd",
    "billed_usd",
    "counted_of_billed_usd",
    "difference_usd",
)
"""The CSV's columns after the month and the subject."""


@require_safe
def spend(request: PersonRequest) -> HttpResponse:
    """Shows the spend of `?month=2026-11&by=tag&key=team`; 404 for an invalid month."""
    month_spend = _table(request)
    present = months.current_month(request.workspace, timezone.now())
    context = {
        "table": month_spend,
        "by": BY,
        "bars": month_bars(request.workspace, month_spend.month),
        "earlier": month_spend.month.months_later(-1),
        "later": month_spend.month.months_later(1) if month_spend.month != present else None,
        "is_present": month_spend.month == present,
        "old_prices": old_prices_of(_parts(request, month_spend)),
    }
    return render(request, "spend/spend.html", context)


def _parts(request: PersonRequest, month_spend: Table) -> QuerySet[CostPart]:
    """Return the costs on the page: of the month, or of all months up to it."""
    parts, month = priced_parts_of(request.workspace), month_spend.month
    parts = parts.filter(day__lte=(month.end - timedelta(microseconds=1)).astimezone(UTC).date())
    if month_spend.by == "month":
        return parts
    return parts.filter(day__gte=month.start.astimezone(UTC).date())


@require_safe
def as_csv(request: PersonRequest) -> HttpResponse:
    """Answers the same table, exact to the nano-dollar; an empty cell is unknown, never 0."""
    month_spend = _table(request)
    name = f"spend-{month_spend.month}-by-{month_spend.by}.csv"
    answer = HttpResponse(content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    writer = csv.writer(answer)
    first = f"tag {month_spend.key}" if month_spend.key else month_spend.by
    writer.writerow(["month", plain_cell(first), *COLUMNS])
    for line in month_spend.lines:
        writer.writerow(_cells(month_spend, line))
    return answer


def _cells(month_spend: Table, line: SpendLine) -> list[object]:
    month = line.label if month_spend.by == "month" else str(month_spend.month)
    sums = (line.usd, line.billed_usd, line.counted_usd, line.difference_usd)
    plain = ["" if usd is None else f"{usd:f}" for usd in sums]
    return [month, plain_cell(line.label), line.run_count, line.unpriced_count, *plain]


def _table(request: PersonRequest) -> Table:
    by = request.GET.get("by", JOB)
    if by not in BY:
        raise Http404("There is no such table.")
    try:
        month = months.parse_month(request.GET.get("month", ""), request.workspace, timezone.now())
    except ValueError as error:
        raise Http404(str(error)) from None
    return table(request.workspace, month, by, request.GET.get("key", ""))
