"""What people say of a job."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from webapp.accounts.access import PersonRequest, members_only
from webapp.runs import scope
from webapp.runs.editing import jobs
from webapp.runs.forms import JobForm
from webapp.runs.models import Job


@members_only
@require_http_methods(["GET", "POST"])
def edit_job(request: PersonRequest, job_uuid: UUID) -> HttpResponse:
    """Its name, and owner and tags of the runs that name none."""
    job = get_object_or_404(scope.jobs_of(request.workspace), uuid=job_uuid)
    form = JobForm(request.POST) if request.method == "POST" else JobForm.of(job)
    if request.method == "POST" and form.is_valid() and _save(request, job, form):
        messages.success(request, "Saved.")
        return redirect("runs:job", job.uuid)
    return _page(request, job, form=form)


def _save(request: PersonRequest, job: Job, form: JobForm) -> bool:
    """False with the reason in the form."""
    try:
        jobs.edit(job, request.user, form.cleaned_data)
    except jobs.NameTakenError as error:
        form.add_error("name", str(error))
        return False
    return True


def _page(request: PersonRequest, job: Job, **forms: Any) -> HttpResponse:
    context = {"job": job, "form": JobForm.of(job), **forms}
    return render(request, "runs/edit_job.html", context)
