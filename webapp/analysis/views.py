"""The view that requests a new analysis."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from webapp.accounts.access import PersonRequest, members_only
from webapp.analysis import queue
from webapp.runs import locks, scope


@members_only
@require_POST
def analyse_again(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """For use after the cause of a failure is fixed: an unavailable store, a defect in a
    version."""
    run = scope.run_or_404(request.workspace, run_id)
    with transaction.atomic():
        locks.run(run.pk)
        queue.want_again(run)
    messages.success(request, "A new analysis of this run was requested.")
    return redirect("dashboard:run", run.pk)
