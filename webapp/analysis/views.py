"""The views that request a new analysis, and that accept a regression."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_POST

from webapp.accounts.access import PersonRequest, members_only
from webapp.analysis import accepting, queue
from webapp.analysis.models import AcceptedLevel
from webapp.analysis.selectors.regressions import open_regressions
from webapp.runs import locks, scope

MOST_NOTE_CHARACTERS = 2000


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


@members_only
@require_POST
def accept_regression(request: PersonRequest, job_uuid: UUID, number: int) -> HttpResponse:
    """`number`: of the first run that was worse."""
    job = get_object_or_404(scope.jobs_of(request.workspace), uuid=job_uuid)
    regression = open_regressions(job).filter(since__number=number).first()
    if regression is None:
        messages.error(request, f"No regression since run #{number} is open.")
    else:
        note = request.POST.get("note", "").strip()[:MOST_NOTE_CHARACTERS]
        accepting.accept(regression, request.user, note)
        messages.success(request, "Accepted. Later runs are compared with this level.")
    return redirect("dashboard:job", job.uuid)


@members_only
@require_POST
def open_regression_again(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """`run_id`: the run at which it was accepted."""
    run = scope.run_or_404(request.workspace, run_id)
    accepted = get_object_or_404(AcceptedLevel, run=run)
    accepting.take_back(accepted, request.user)
    messages.success(request, "The level is no longer accepted.")
    return redirect("dashboard:job", run.job.uuid)
