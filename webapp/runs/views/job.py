"""One job and its runs."""

from __future__ import annotations

from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from webapp.runs import scope
from webapp.runs.selectors.job import job_page, listed_runs

PAGE_RUNS = 50


@login_required
@require_safe
def job(request: HttpRequest, job_uuid: UUID) -> HttpResponse:
    """The job's last run in words, its cost over time, and its runs."""
    found = get_object_or_404(scope.jobs_of(request.workspace), uuid=job_uuid)  # type: ignore[attr-defined]
    shown = job_page(found)
    page = Paginator(listed_runs(found), PAGE_RUNS).get_page(request.GET.get("page"))
    unit = shown.unit
    rows = [(run, unit.cost_usd(run) if unit else None) for run in page.object_list]
    context = {"job": found, "shown": shown, "rows": rows, "page": page, "chart": shown.chart()}
    return render(request, "runs/job.html", context)
