"""The advice settings, and decisions on recommendations from the pages of runs and jobs."""

from __future__ import annotations

from datetime import UTC, datetime, time
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.dateparse import parse_date
from django.views.decorators.http import require_http_methods, require_POST

from webapp.accounts.access import PersonRequest, changed_by_owners, members_only
from webapp.advice import allowing, deciding
from webapp.advice.deciding import DecisionError
from webapp.advice.forms import BuyingForm
from webapp.advice.models import Recommendation
from webapp.advice.scope import recommendations_of

MOST_REASON_CHARACTERS = 2000


@changed_by_owners
@require_http_methods(["GET", "POST"])
def buying(request: PersonRequest) -> HttpResponse:
    """Which ways to buy, and which regions, the advisor may propose."""
    form = BuyingForm(request.workspace, request.POST or None)
    if request.method == "POST" and form.is_valid():
        allowed = form.cleaned_data
        allowing.save(request.workspace, request.user, allowed["may_buy"], allowed["other_regions"])
        messages.success(request, "Saved. Recommendations are renewed within minutes.")
        return redirect("advice:buying")
    return render(request, "advice/buying.html", {"form": form})


@members_only
@require_POST
def dismiss(request: PersonRequest, recommendation_uuid: UUID) -> HttpResponse:
    """The form's `reason` is kept with it."""
    row = _chosen(request, recommendation_uuid)
    reason = request.POST.get("reason", "").strip()[:MOST_REASON_CHARACTERS]
    deciding.dismiss(row, request.user, reason)
    messages.success(request, "Dismissed. Later runs won't recommend it again.")
    return _back(request, row)


@members_only
@require_POST
def snooze(request: PersonRequest, recommendation_uuid: UUID) -> HttpResponse:
    """`until`: a day, from whose beginning on it is open again."""
    row = _chosen(request, recommendation_uuid)
    day = _day(request.POST.get("until", ""))
    try:
        if day is None:
            raise DecisionError("Choose a day within the next year.")
        deciding.snooze(row, request.user, day)
        messages.success(request, f"Snoozed until {day:%Y-%m-%d}.")
    except DecisionError as error:
        messages.error(request, str(error))
    return _back(request, row)


@members_only
@require_POST
def follow(request: PersonRequest, recommendation_uuid: UUID) -> HttpResponse:
    row = _chosen(request, recommendation_uuid)
    try:
        deciding.follow(row, request.user)
        messages.success(request, "Marked as followed. The next runs are measured against it.")
    except DecisionError as error:
        messages.error(request, str(error))
    return _back(request, row)


@members_only
@require_POST
def reopen(request: PersonRequest, recommendation_uuid: UUID) -> HttpResponse:
    row = _chosen(request, recommendation_uuid)
    try:
        deciding.reopen(row, request.user)
        messages.success(request, "The decision was undone.")
    except DecisionError as error:
        messages.error(request, str(error))
    return _back(request, row)


def _chosen(request: PersonRequest, uuid: UUID) -> Recommendation:
    return get_object_or_404(recommendations_of(request.workspace), uuid=uuid)


def _day(text: str) -> datetime | None:
    """Midnight in UTC; None: not a day."""
    try:
        day = parse_date(text)
    except ValueError:
        return None
    return None if day is None else datetime.combine(day, time(), UTC)


def _back(request: PersonRequest, row: Recommendation) -> HttpResponse:
    """To the page with the form: of the run that is the evidence, or of the job."""
    if request.POST.get("page") == "run":
        return redirect("dashboard:run", row.run_id)
    return redirect("dashboard:job", row.job.uuid)
