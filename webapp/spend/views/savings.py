"""Savings: potential, followed, realised and missed, as a page and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from webapp.accounts.access import PersonRequest, members_only
from webapp.advice import recounting
from webapp.advice.models import RealisedSaving, Recommendation
from webapp.advice.scope import realised_savings_of
from webapp.http.downloads import plain_cell
from webapp.spend.savings import savings_page

COLUMNS = (
    "job",
    "recommendation",
    "state",
    "is_proven",
    "run",
    "run_began_at",
    "baseline_usd",
    "saved_usd",
    "saved_low_usd",
    "saved_high_usd",
    "promised_usd",
    "is_own_way",
    "evidence_run",
    "url",
)


@require_safe
def savings(request: PersonRequest) -> HttpResponse:
    page = savings_page(request.workspace, timezone.now())
    return render(request, "spend/savings.html", {"page": page})


@members_only
@require_POST
def close_recount(request: PersonRequest) -> HttpResponse:
    """Close the note that savings were counted again."""
    recounting.close_note(request.workspace)
    return redirect("spend:savings")


@require_safe
def as_csv(request: PersonRequest) -> HttpResponse:
    """Answers a line for each run that followed a recommendation, of all time. USD are exact to the
    nano-dollar; an empty cell is unknown, never 0.
    """
    answer = HttpResponse(content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="savings.csv"'
    writer = csv.writer(answer)
    writer.writerow(COLUMNS)
    for saved in realised_savings_of(request.workspace).iterator():
        writer.writerow([plain_cell(value) for value in _cells(saved)])
    return answer


def _cells(saved: RealisedSaving) -> Iterator[object]:
    row, run = saved.recommendation, saved.run
    yield from (row.job.name, row.title, row.state)
    yield "yes" if row.state in Recommendation.PROVEN else "no"
    yield from (run.number, run.began_at.isoformat(timespec="seconds"))
    for usd in (saved.baseline_usd, saved.usd, saved.low_usd, saved.high_usd, saved.predicted_usd):
        yield "" if usd is None else f"{usd:f}"
    yield "yes" if saved.is_own_way else "no"
    yield row.run.number
    yield settings.BASE_URL + reverse("advice:recommendation", args=[row.uuid])
