"""The costs of a month's failures, as a page and as CSV."""

from __future__ import annotations

import csv
from decimal import Decimal
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.analysis.selectors.failures import FailureLine, failures_between
from webapp.http.downloads import plain_cell
from webapp.runs import scope
from webapp.runs.models import Job
from webapp.spend import months
from webapp.spend.months import Month

COLUMNS = (
    "month",
    "failed_at",
    "job",
    "run",
    "cause",
    "is_lost_known",
    "is_continued",
    "lost_seconds",
    "start_seconds",
    "lost_usd",
    "start_usd",
    "not_continued_usd",
    "usd",
)


@require_safe
def failures(request: PersonRequest) -> HttpResponse:
    """Shows the failures of `?month=2026-11` and of the job with the id `?job=`; 404 for an invalid
    month and an unknown job.
    """
    month, job = _month(request), _job(request)
    present = months.current_month(request.workspace, timezone.now())
    context = {
        "month": month,
        "job": job,
        "table": failures_between(request.workspace, month.start, month.end, job),
        "earlier": month.months_later(-1),
        "later": month.months_later(1) if month != present else None,
    }
    return render(request, "spend/failures.html", context)


@require_safe
def as_csv(request: PersonRequest) -> HttpResponse:
    """Answers one line a failure, exact to the nano-dollar; an empty amount is no price, never
    0.
    """
    month, job = _month(request), _job(request)
    answer = HttpResponse(content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="failures-{month}.csv"'
    writer = csv.writer(answer)
    writer.writerow(COLUMNS)
    for failure in failures_between(request.workspace, month.start, month.end, job).failures:
        writer.writerow([str(month), *_cells(failure)])
    return answer


def _cells(failure: FailureLine) -> list[object]:
    return [
        failure.at.isoformat(),
        plain_cell(str(failure.run.job)),
        failure.run.number,
        failure.cause,
        failure.is_lost_known,
        failure.next is not None,
        failure.lost_seconds,
        failure.start_seconds,
        *(_plain(getattr(failure, name)) for name in COLUMNS if name.endswith("_usd")),
        _plain(failure.usd),
    ]


def _plain(usd: Decimal | None) -> str:
    return "" if usd is None else f"{usd:f}"


def _job(request: PersonRequest) -> Job | None:
    """Return the job, or None for all of them."""
    if not (uuid := request.GET.get("job", "")):
        return None
    try:
        return get_object_or_404(scope.jobs_of(request.workspace), uuid=UUID(uuid))
    except ValueError:
        raise Http404("There is no such job.") from None


def _month(request: PersonRequest) -> Month:
    try:
        return months.parse_month(request.GET.get("month", ""), request.workspace, timezone.now())
    except ValueError as error:
        raise Http404(str(error)) from None
