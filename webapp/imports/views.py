"""The page on which owners import from S3."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from webapp.accounts.access import PersonRequest, owners_only
from webapp.http.problems import Problem
from webapp.imports import allowance, from_s3, grants, selectors
from webapp.imports.forms import SourceForm


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
