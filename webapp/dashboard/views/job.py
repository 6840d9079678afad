"""One job and its runs."""

from __future__ import annotations

from uuid import UUID

from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.advice import looking
from webapp.analysis.selectors.old_prices import old_prices_of_runs
from webapp.analysis.selectors.verdict import verdict_of
from webapp.dashboard.selectors.job import job_page
from webapp.dashboard.selectors.judgements import finding_counts
from webapp.dashboard.selectors.probes import UNREAD
from webapp.runs import scope

PAGE_RUNS = 50
MOST_DIGITS = 10


@require_safe
def job(request: PersonRequest, job_uuid: UUID) -> HttpResponse:
    """Shows a sentence about the job's last run, its cost over time, and its runs."""
    present = scope.jobs_of(request.workspace).filter(uuid=job_uuid).first()
    if present is None:
        return _moved(request, job_uuid)
    present.workspace = request.workspace
    shown = job_page(present)
    looking.freeze_seen(item.row for item in shown.recommendations)
    newest = present.present_runs.newest_first().defer(*UNREAD)
    page = Paginator(newest, PAGE_RUNS).get_page(request.GET.get("page"))
    counts = finding_counts(page.object_list)
    rows = [
        (run, shown.unit.cost_usd(run) if shown.unit else None, counts[run.pk], verdict_of(run))
        for run in page.object_list
    ]
    history = shown.history(request.GET.get("range", ""), _number(request.GET.get("until", "")))
    context = {"job": present, "shown": shown, "rows": rows, "page": page, "history": history}
    context["old_prices"] = old_prices_of_runs(present.present_runs)
    return render(request, "dashboard/job.html", context)


def _number(text: str) -> int | None:
    """Return a run's number, or None."""
    return int(text) if text.isdecimal() and len(text) < MOST_DIGITS else None


def _moved(request: PersonRequest, job_uuid: UUID) -> HttpResponse:
    """Redirect to the job that it was merged into; 404 if it wasn't."""
    merged = get_object_or_404(scope.merged_jobs_of(request.workspace), uuid=job_uuid)
    target = merged.merged_into
    assert target is not None  # noqa: S101 - the scope looked
    return redirect("dashboard:job", target.uuid)
