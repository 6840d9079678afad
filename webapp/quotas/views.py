"""The page about what a workspace uses."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.quotas import usage as selector


@require_safe
def usage(request: PersonRequest) -> HttpResponse:
    """Shows each quota with its limit, then tokens and jobs that use most."""
    counted = selector.storage(request.workspace)
    context = {
        "lines": selector.lines(request.workspace) + selector.import_lines(request.workspace),
        "tokens": selector.by_token(request.workspace),
        "jobs": selector.largest_jobs(request.workspace, counted),
        "counted": counted,
    }
    return render(request, "quotas/usage.html", context)
