"""One recommendation: what, why, what it saves, how to apply it, and what later runs showed."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.advice import looking, scope
from webapp.advice.selectors.candidates import advice
from webapp.advice.views.what_if_panel import panel

MOST_ROWS = 8
"""The most other machines shown; the page of what-if questions has more."""


@require_safe
def recommendation(request: PersonRequest, recommendation_uuid: UUID) -> HttpResponse:
    row = get_object_or_404(scope.recommendations_of(request.workspace), uuid=recommendation_uuid)
    looking.freeze_seen([row])
    present = row.run.summary.instance_types
    (item,) = advice([row], present)
    row.run.workspace, row.run.job = request.workspace, row.job
    shown = {"item": item, "row": row, "recommended": row.change.get("instance_type", "")}
    return render(request, "advice/page.html", panel(row.run, request.GET, MOST_ROWS) | shown)
