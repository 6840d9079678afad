"""The list of jobs: the first page that a person sees."""

from __future__ import annotations

from django.conf import settings
from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp import agent_wheel
from webapp.accounts.access import PersonRequest
from webapp.runs import scope
from webapp.runs.selectors import jobs as selector
from webapp.runs.selectors.sparkline import sparkline

PAGE_JOBS = 50
COLUMNS = (
    ("name", "Job", ""),
    ("last", "Last run", ""),
    ("runs", "Runs", "number"),
    ("spend", "Spend, 30 days", "number"),
    ("", "Last cost", "number"),
    ("saving", "Open saving a month", "number"),
    ("", "Cost trend", ""),
)


@require_safe
def jobs(request: PersonRequest) -> HttpResponse:
    """Every job of the workspace with what it spends and could save."""
    own = scope.jobs_of(request.workspace)
    text, sort = request.GET.get("q", "").strip(), request.GET.get("sort", "last")
    if not text and not own.exists():
        known = {"base_url": settings.BASE_URL, "agent_wheel": agent_wheel.address()}
        return render(request, "runs/no_jobs.html", known)
    found = selector.listed(own, text, sort)
    page = Paginator(found, PAGE_JOBS).get_page(request.GET.get("page"))
    rows = [(row, sparkline(row.trend)) for row in selector.rows(page.object_list)]
    context = {
        "rows": rows,
        "page": page,
        "totals": selector.totals(found),
        "text": text,
        "sort": sort if sort in selector.SORTS else "last",
        "columns": COLUMNS,
    }
    return render(request, "runs/jobs.html", context)
