"""Requests a new analysis, accepts a regression, and sets which runs are compared."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_POST, require_safe

from webapp.accounts.access import PersonRequest, members_only
from webapp.analysis import queue
from webapp.analysis.scope import accepted_levels_of, open_regressions_of
from webapp.analysis.selectors.comparability import TITLES, parameter_rows
from webapp.analysis.successive import accepting, comparability, verdicts
from webapp.runs import locks, scope

MOST_NOTE_CHARACTERS = 2000


@members_only
@require_POST
def analyse_again(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """Requests a new analysis, after the cause of a failure is fixed: an unavailable store, a
    defect in a version.
    """
    run = scope.run_or_404(request.workspace, run_id)
    with transaction.atomic():
        locks.run(run.pk)
        queue.requeue_run(run)
    messages.success(request, "A new analysis of this run was requested.")
    return redirect("dashboard:run", run.pk)


@members_only
@require_POST
def accept_regression(request: PersonRequest, job_uuid: UUID, number: int) -> HttpResponse:
    """Accepts a regression. `number` is that of the first run that was worse."""
    job = get_object_or_404(scope.jobs_of(request.workspace), uuid=job_uuid)
    regression = open_regressions_of(job).filter(since__number=number).first()
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
    """Opens a regression again. `run_id` is the run at which it was accepted."""
    run = scope.run_or_404(request.workspace, run_id)
    accepted = accepted_levels_of(run.job).filter(run=run).first()
    if accepted is not None:
        accepting.reopen_regression(accepted, request.user)
    messages.success(request, "The level is no longer accepted.")
    return redirect("dashboard:job", run.job.uuid)


@require_safe
def compared_by(request: PersonRequest, job_uuid: UUID) -> HttpResponse:
    """Shows the role of each parameter in the comparison of a job's runs."""
    job = get_object_or_404(scope.jobs_of(request.workspace), uuid=job_uuid)
    shown = {"job": job, "rows": parameter_rows(job), "titles": TITLES}
    return render(request, "analysis/compared_by.html", shown)


@members_only
@require_POST
def choose_roles(request: PersonRequest, job_uuid: UUID) -> HttpResponse:
    """Sets roles; an empty one follows the parameter's name and history again."""
    job = get_object_or_404(scope.jobs_of(request.workspace), uuid=job_uuid)
    wanted = {
        row.name: role
        for row in parameter_rows(job)
        if (role := request.POST.get(f"role-{row.name}")) in ("", *TITLES)
    }
    with transaction.atomic():
        changed = comparability.choose(job, request.user, wanted)
        if changed:
            verdicts.rejudge_job(job)
    message = "Saved. The job's runs were judged again." if changed else "No changes to save."
    messages.success(request, message)
    return redirect("analysis:compared_by", job.uuid)
