"""The page of what-if questions: a run on other machines, bought otherwise or elsewhere. It changes
nothing.
"""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.advice.views.what_if_panel import panel
from webapp.runs import scope

MOST_ROWS = 30


@require_safe
def what_if(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """Answers the question in the address; without one, as the run was but on the cheapest
    machines.
    """
    run = scope.run_or_404(request.workspace, run_id)
    run.workspace = request.workspace
    return render(request, "advice/what_if.html", panel(run, request.GET, MOST_ROWS))
