"""What people say of a run after the fact."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from webapp.accounts.access import PersonRequest, members_only
from webapp.runs import scope
from webapp.runs.editing import runs
from webapp.runs.forms import RunForm
from webapp.runs.models import Run


@members_only
@require_http_methods(["GET", "POST"])
def edit_run(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """Note, owner, tags, and whether other runs are compared with it."""
    run = scope.run_or_404(request.workspace, run_id)
    form = RunForm(request.POST) if request.method == "POST" else RunForm.of(run)
    if request.method == "POST" and form.is_valid():
        runs.edit(run, request.user, form.values())
        messages.success(request, "Saved.")
        return redirect("runs:run", run.pk)
    return _page(request, run, form=form)


def _page(request: PersonRequest, run: Run, **forms: Any) -> HttpResponse:
    context = {"run": run, "form": RunForm.of(run), **forms}
    return render(request, "runs/edit_run.html", context)
