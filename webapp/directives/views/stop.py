"""Stops a running training for a person."""

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
def stop_run(request: PersonRequest, run_id: UUID) -> HttpResponse:
    run = scope.run_or_404(request.workspace, run_id)
    try:
        issue.stop_for(run, request.user)
        messages.success(
            request, "Requested a stop. The agent receives the request with its next upload."
        )
    except issue.NotRunningError:
        messages.warning(request, "Not stopped: the run is not running.")
    except issue.NotAllowedError:
        messages.warning(request, "Not stopped: the run was started without --allow-stop.")
    return redirect("dashboard:run", run.pk)
