"""The page on which owners import from S3, and the retry of imports that failed."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from webapp.accounts.access import PersonRequest, owners_only
from webapp.http.problems import Problem
from webapp.imports import allowance, from_s3, grants, retrying, selectors
from webapp.imports.forms import SourceForm
from webapp.runs import scope


@owners_only
@require_http_methods(["GET", "POST"])
def sources(request: PersonRequest) -> HttpResponse:
    """Shows what may be read, a form that begins an import, and the imports that wait or run."""
    form = SourceForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        said = form.cleaned_data
        wanted = from_s3.ImportRequest(said["source"].strip(), said["job"].strip())
        try:
            begun = from_s3.queue_import(request.workspace, request.user, wanted)
        except Problem as problem:
            form.add_error("source", problem.detail)
        else:
            return redirect("dashboard:run", begun.artefact.run_id)
    context = {
        "form": form,
        "addresses": grants.addresses(request.workspace),
        "lines": selectors.open_imports(request.workspace),
        "pause": allowance.pause(request.workspace),
        "open_count": selectors.open_count(request.workspace),
    }
    return render(request, "imports/sources.html", context)


@require_POST
def retry(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """Convert again what failed to import, then show the run."""
    run = scope.run_or_404(request.workspace, run_id)
    try:
        if not retrying.retry(run):
            messages.error(request, "No import of this run has failed.")
    except Problem as problem:
        messages.error(request, problem.detail)
    return redirect("dashboard:run", run.pk)
