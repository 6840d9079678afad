"""The list of runs of all jobs."""

from __future__ import annotations

from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
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
    """Shows the runs that match the URL; see `RunFilter`."""
    chosen = RunFilter.from_query(request.GET, request.workspace)
    rows = chosen.rows(scope.runs_of(request.workspace))
    context = {
        "chosen": chosen,
        "page": _page(rows, request.GET.get("page")),
        "label": MEANINGS.get(chosen.label),
        "labels": {name: title for name, (title, _, _) in MEANINGS.items()},
        "states": Run.STATES,
        "spans": (1, 7, 30, 90),
    }
    return render(request, "dashboard/runs.html", context)


def _page(rows: QuerySet[Run], number: str | None) -> Page[Any]:
    """Return the page. Only its rows are read: they are wide, and all are sorted."""
    page: Page[Any] = Paginator(rows.values_list("pk", flat=True), PAGE_RUNS).get_page(number)
    read = rows.in_bulk(list(page.object_list))
    page.object_list = [read[pk] for pk in page.object_list if pk in read]
    return page
