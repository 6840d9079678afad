"""Preset and thresholds of a workspace or a job: show, preview on past runs, save."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_http_methods

from rules.parameter import Preset
from webapp.accounts.access import PersonRequest, changed_by_owners
from webapp.rulebook import changes, preview
from webapp.rulebook.forms import ParametersForm, WorkspaceRulesForm
from webapp.runs.models import Job
from webapp.runs.scope import jobs_of
from webapp.thresholds.values import resolve_values, set_by, values_of


@changed_by_owners
@require_http_methods(["GET", "POST"])
def of_workspace(request: PersonRequest) -> HttpResponse:
    """Edits the thresholds of the workspace. A POST with `preview` shows the effect on past runs
    and saves nothing.
    """
    workspace = request.workspace
    own, preset = set_by(workspace), cast(Preset, workspace.preset)
    form = WorkspaceRulesForm(own, resolve_values(preset, []), request.POST or None, preset)
    return _answer(request, form, None, can_change=request.is_owner)


@require_http_methods(["GET", "POST"])
def of_job(request: PersonRequest, job_uuid: UUID) -> HttpResponse:
    """Edits the thresholds of one job, on top of the workspace's."""
    job = get_object_or_404(jobs_of(request.workspace), uuid=job_uuid)
    own, inherited = set_by(request.workspace, job), values_of(request.workspace)
    form = ParametersForm(own, inherited, request.POST or None)
    return _answer(request, form, job, can_change=request.may_change)


def _answer(
    request: PersonRequest, form: ParametersForm, job: Job | None, can_change: bool
) -> HttpResponse:
    shown: dict[str, object] = {"form": form, "job": job, "can_change": can_change}
    if request.method == "POST" and form.is_valid():
        preset = form.cleaned_data.get("preset", request.workspace.preset)
        if "preview" not in request.POST:
            return _save(request, job, preset, form)
        shown["effects"] = preview.effects(request.workspace, job, preset, form.own())
        shown["days"] = preview.DAYS
    shown["is_read_only"] = not can_change
    page = "rules/parameters.html" if job is None else "rules/job_parameters.html"
    return render(request, page, shown)


def _save(
    request: PersonRequest, job: Job | None, preset: str, form: ParametersForm
) -> HttpResponse:
    changed = changes.save(request.workspace, job, request.user, preset, form.own())
    message = "Saved. Runs are judged again within a minute." if changed else "No changes to save."
    messages.success(request, message)
    return redirect(request.path)
