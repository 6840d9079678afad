"""Decisions on recommendations, one or many, from the pages that show them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, time
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.dateparse import parse_date
from django.views.decorators.http import require_POST

from webapp.accounts.access import PersonRequest, members_only
from webapp.advice import deciding
from webapp.advice.deciding import DecisionError
from webapp.advice.models import Recommendation
from webapp.advice.scope import recommendations_of
from webapp.runs.editing.changes import Actor

MOST_REASON_CHARACTERS = 2000
MOST_AT_ONCE = 100
DONE = {"dismiss": "dismissed", "snooze": "snoozed", "reopen": "opened again"}


@members_only
@require_POST
def dismiss(request: PersonRequest, recommendation_uuid: UUID) -> HttpResponse:
    """Dismisses a recommendation. The form's `reason` is kept with it."""
    row = _chosen(request, recommendation_uuid)
    reason = request.POST.get("reason", "").strip()[:MOST_REASON_CHARACTERS]
    deciding.dismiss(row, request.user, reason)
    messages.success(request, "Dismissed. Later runs won't recommend it again.")
    return _back(request, row)


@members_only
@require_POST
def snooze(request: PersonRequest, recommendation_uuid: UUID) -> HttpResponse:
    """Snoozes a recommendation. `until` is the day at whose start it is open again."""
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
def decide_many(request: PersonRequest) -> HttpResponse:
    """Decides on many: `verb` for each of the `chosen`, with `reason` or `until` as for one;
    `asked` is the query of the list to return to. Those whose state doesn't allow it are named, the
    others are decided.
    """
    rows = _chosen_ones(request)
    try:
        decide = _decision(request)
    except DecisionError as error:
        messages.error(request, str(error))
        return _back_to_list(request)
    if not rows:
        messages.error(request, "Choose at least one recommendation.")
    done, refused = 0, []
    for row in rows:
        try:
            decide(row)
            done += 1
        except DecisionError as error:
            refused.append(f"{row.job}: {row.title}: {error}")
    if done:
        words = f"{done} recommendation{'' if done == 1 else 's'}"
        messages.success(request, f"{words} {DONE[request.POST['verb']]}.")
    for each in refused:
        messages.error(request, f"Not changed: {each}")
    return _back_to_list(request)


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


def _chosen_ones(request: PersonRequest) -> list[Recommendation]:
    """Return the chosen recommendations. Other workspaces' and malformed ids choose nothing."""
    uuids = []
    for text in request.POST.getlist("chosen")[:MOST_AT_ONCE]:
        with suppress(ValueError):
            uuids.append(UUID(text))
    return list(recommendations_of(request.workspace).filter(uuid__in=uuids))


def _decision(request: PersonRequest) -> Callable[[Recommendation], object]:
    """Return the decision of the form. Raises DecisionError: it lacks something, or there is no
    such verb.
    """
    verb, by = request.POST.get("verb", ""), request.user
    if verb == "dismiss":
        reason = request.POST.get("reason", "").strip()[:MOST_REASON_CHARACTERS]
        if not reason:
            raise DecisionError("Say why they are dismissed.")
        return lambda row: _dismiss_unfollowed(row, by, reason)
    if verb == "snooze":
        day = _day(request.POST.get("until", ""))
        if day is None:
            raise DecisionError("Choose a day within the next year.")
        return lambda row: deciding.snooze(row, by, day)
    if verb == "reopen":
        return lambda row: deciding.reopen(row, by)
    raise DecisionError("Choose what to do with them.")


def _dismiss_unfollowed(row: Recommendation, by: Actor, reason: str) -> None:
    """Dismiss a recommendation. Raises DecisionError: runs followed it, and what they saved would
    go with it.
    """
    if row.state in Recommendation.FOLLOWED:
        raise DecisionError("Runs followed it, and dismissing it removes what they saved.")
    deciding.dismiss(row, by, reason)


def _back_to_list(request: PersonRequest) -> HttpResponse:
    asked = QueryDict(request.POST.get("asked", "")[:MOST_REASON_CHARACTERS]).urlencode()
    return redirect(reverse("advice:inbox") + (f"?{asked}" if asked else ""))


def _day(text: str) -> datetime | None:
    """Return the day's midnight in UTC, or None if the text is no day."""
    try:
        day = parse_date(text)
    except ValueError:
        return None
    return None if day is None else datetime.combine(day, time(), UTC)


def _back(request: PersonRequest, row: Recommendation) -> HttpResponse:
    """Redirect to the page with the form: the recommendation's, that of the run that is the
    evidence, or of the job.
    """
    if request.POST.get("page") == "own":
        return redirect("advice:recommendation", row.uuid)
    if request.POST.get("page") == "run":
        return redirect("dashboard:run", row.run_id)
    return redirect("dashboard:job", row.job.uuid)
