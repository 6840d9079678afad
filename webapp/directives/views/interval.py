"""Changes the sampling interval of a running run."""

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
def change_interval(request: PersonRequest, run_id: UUID) -> HttpResponse:
    run = scope.run_or_404(request.workspace, run_id)
    try:
        seconds = float(request.POST.get("seconds", ""))
        issue.interval(run, request.user, seconds)
        message = (
            f"Requested a sample every {seconds:g} s. "
            "The agent receives the request with its next upload."
        )
        messages.success(request, message)
    except issue.NotRunningError:
        messages.warning(request, "The sampling interval can't change: the run is not running.")
    except ValueError:
        least, most = issue.LEAST_INTERVAL_SECONDS, issue.MOST_INTERVAL_SECONDS
        messages.warning(request, f"Choose a sampling interval between {least:g} and {most:g} s.")
    return redirect("dashboard:run", run.pk)
