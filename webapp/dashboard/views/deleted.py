"""Deleted jobs and runs that can still be restored."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.dashboard.selectors.deleted import MOST_SHOWN, deletions
from webapp.runs import scope
from webapp.runs.models import UNDO_DAYS


@require_safe
def deleted(request: PersonRequest) -> HttpResponse:
    """Shows the deletions, newest first, and the merged jobs."""
    jobs, runs = scope.every_job_of(request.workspace), scope.every_run_of(request.workspace)
    context = {
        "deletions": deletions(jobs, runs),
        "merged": scope.merged_jobs_of(request.workspace)[:MOST_SHOWN],
        "undo_days": UNDO_DAYS,
    }
    return render(request, "dashboard/deleted.html", context)
