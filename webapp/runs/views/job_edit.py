"""The form to edit a job, and to merge it into another."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from webapp.accounts.access import PersonRequest, members_only
from webapp.runs import scope, undo
from webapp.runs.editing import jobs, merging
from webapp.runs.forms import JobForm, MergeForm
from webapp.runs.models import Job

MOST_OTHERS = 500
"""The most job names offered for merging; others can be typed."""


@members_only
@require_http_methods(["GET", "POST"])
def edit_job(request: PersonRequest, job_uuid: UUID) -> HttpResponse:
    """Edits the job's name, the default owner and tags of its runs, and its metrics."""
    job = get_object_or_404(scope.jobs_of(request.workspace), uuid=job_uuid)
    form = JobForm(request.POST) if request.method == "POST" else JobForm.from_job(job)
    if request.method == "POST" and form.is_valid() and _save(request, job, form):
        messages.success(request, "Saved.")
        return redirect("dashboard:job", job.uuid)
    return _page(request, job, form=form)


def _save(request: PersonRequest, job: Job, form: JobForm) -> bool:
    """Returns False, with the reason in the form, if it can't be saved."""
    try:
        jobs.edit(job, request.user, form.cleaned_data)
    except jobs.NameTakenError as error:
        form.add_error("name", str(error))
        return False
    return True


@members_only
@require_POST
def merge_job(request: PersonRequest, job_uuid: UUID) -> HttpResponse:
    """Merges the job into another."""
    job = get_object_or_404(scope.jobs_of(request.workspace), uuid=job_uuid)
    form = MergeForm(request.POST)
    target = _merge(request, job, form) if form.is_valid() else None
    if target is None:
        return _page(request, job, merge_form=form)
    address = reverse("runs:unmerge_job", args=[job.uuid])
    undo.offer(request, f"{job} was merged into {target}.", address)
    return redirect("dashboard:job", target.uuid)


def _merge(request: PersonRequest, job: Job, form: MergeForm) -> Job | None:
    """Returns None, with the reason in the form, if there is no such job."""
    name = form.cleaned_data["into"]
    into = scope.jobs_of(request.workspace).filter(name=name).first()
    if into is None:
        form.add_error("into", f"There is no job named {name}.")
        return None
    try:
        return merging.merge(job, into, request.user)
    except merging.MergeError as error:
        form.add_error("into", str(error))
        return None


@members_only
@require_POST
def unmerge_job(request: PersonRequest, job_uuid: UUID) -> HttpResponse:
    """Undoes a merge."""
    job = get_object_or_404(scope.every_job_of(request.workspace), uuid=job_uuid)
    merging.unmerge(job, request.user)
    messages.success(request, f"The merge was undone: {job} is a separate job again.")
    return redirect("dashboard:job", job.uuid)


def _page(request: PersonRequest, job: Job, **forms: Any) -> HttpResponse:
    others = scope.jobs_of(request.workspace).exclude(pk=job.pk).order_by("name")
    context = {
        "job": job,
        "form": JobForm.from_job(job),
        "merge_form": MergeForm(),
        "others": list(others.values_list("name", flat=True)[:MOST_OTHERS]),
        "merged": scope.merged_jobs_of(request.workspace).filter(merged_into=job),
        **forms,
    }
    return render(request, "runs/edit_job.html", context)
