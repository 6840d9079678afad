"""Deletes runs and jobs, and restores them."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_POST

from webapp.accounts.access import PersonRequest
from webapp.runs import scope, undo
from webapp.runs.editing import deletion


@require_POST
def delete_run(request: PersonRequest, run_id: UUID) -> HttpResponse:
    run = get_object_or_404(scope.every_run_of(request.workspace), pk=run_id)
    deletion.delete_run(run, request.user)
    undo.offer(request, f"{run} was deleted.", reverse("runs:restore_run", args=[run.pk]))
    if run.job.deleted_at is not None:
        return redirect("dashboard:jobs")
    return redirect("dashboard:job", run.job.uuid)


@require_POST
def restore_run(request: PersonRequest, run_id: UUID) -> HttpResponse:
    run = get_object_or_404(scope.every_run_of(request.workspace), pk=run_id)
    deletion.restore_run(run, request.user)
    messages.success(request, f"{run} was restored.")
    return redirect("dashboard:run", run.pk)


@require_POST
def delete_job(request: PersonRequest, job_uuid: UUID) -> HttpResponse:
    job = get_object_or_404(scope.every_job_of(request.workspace), uuid=job_uuid)
    deleted_at = deletion.delete_job(job, request.user)
    address = reverse("runs:restore_job", args=[job.uuid])
    undo.offer(
        request, f"{job} and its runs were deleted.", address, deleted_at=deleted_at.isoformat()
    )
    return redirect("dashboard:jobs")


@require_POST
def restore_job(request: PersonRequest, job_uuid: UUID) -> HttpResponse:
    """Restores what was deleted at `deleted_at`. Runs deleted at other times stay deleted."""
    job = get_object_or_404(scope.every_job_of(request.workspace), uuid=job_uuid)
    try:
        deleted_at = parse_datetime(request.POST.get("deleted_at", ""))
    except ValueError:
        deleted_at = None
    if deleted_at is None or deleted_at.tzinfo is None:
        raise Http404("Nothing of this job was deleted at that time.")
    back = deletion.restore_job(job, request.user, deleted_at)
    messages.success(request, f"{job} was restored with {back} run{'' if back == 1 else 's'}.")
    return redirect("dashboard:job", job.uuid)
