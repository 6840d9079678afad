"""The list of runs of all jobs."""

from __future__ import annotations

from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.analysis.selectors.ledger import MEANINGS
from webapp.dashboard.selectors.run_filter import RunFilter
from webapp.runs import scope
from webapp.runs.models import Run

PAGE_RUNS = 50


@require_safe
def runs(request: PersonRequest) -> HttpResponse:
    """Filtered by the URL; see `RunFilter`."""
    chosen = RunFilter.of(request.GET, request.workspace)
    rows = chosen.rows(scope.runs_of(request.workspace))
    context = {
        "chosen": chosen,
        "page": Paginator(rows, PAGE_RUNS).get_page(request.GET.get("page")),
        "label": MEANINGS.get(chosen.label),
        "labels": {name: title for name, (title, _, _) in MEANINGS.items()},
        "states": Run.STATES,
        "spans": (1, 7, 30, 90),
    }
    return render(request, "dashboard/runs.html", context)
