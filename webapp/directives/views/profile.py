"""Requests a profile of a running training."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from webapp.accounts.access import PersonRequest
from webapp.directives import issue
from webapp.runs import scope


@require_POST
def profile_run(request: PersonRequest, run_id: UUID) -> HttpResponse:
    run = scope.run_or_404(request.workspace, run_id)
    try:
        issue.profile(run, request.user)
        said = (
            "Requested a profile of 5 steps. The agent receives the request with its next upload."
        )
        messages.success(request, said)
    except issue.NotRunningError:
        messages.warning(request, "No profile requested: the run is not running.")
    return redirect("dashboard:run", run.pk)
