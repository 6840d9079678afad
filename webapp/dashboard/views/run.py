"""The page of a run: cost, findings, recommendations and charts."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.advice import looking
from webapp.analysis import queue
from webapp.analysis.selectors.findings import analysis_of
from webapp.analysis.selectors.old_prices import old_prices_of_runs
from webapp.dashboard import live
from webapp.dashboard.selectors.run import run_page
from webapp.runs import scope
from webapp.runs.models import Run


@require_safe
def run(request: PersonRequest, run_id: UUID) -> HttpResponse:
    chosen = scope.run_or_404(request.workspace, run_id)
    # The run is known, so the page needn't ask for it.
    chosen.workspace = request.workspace
    # Pages of runs that have ended are polled for a short time only.
    is_asked = chosen.state in (Run.RUNNING, Run.IMPORTING) or live.is_poll(request)
    analysis = analysis_of(chosen) if is_asked else None
    version = live.run_version(chosen, analysis) if is_asked else ""
    queue.watch(chosen, analysis)
    if unchanged := live.not_changed(request, version):
        return unchanged
    page = run_page(chosen, may_change=request.may_change)
    looking.freeze_seen(item.row for item in page.recommendations)
    context = {"run": chosen, "page": page, "chart": page.chart_document(), "version": version}
    context["node_address"] = reverse("dashboard:node", args=[chosen.pk, 0])
    context["charts_address"] = reverse("dashboard:run_charts", args=[chosen.pk])
    context["csv_address"] = reverse("runs:series_csv", args=[chosen.pk])
    context["old_prices"] = old_prices_of_runs(
        scope.runs_of(request.workspace).filter(pk=chosen.pk)
    )
    return live.with_version(request, render(request, "dashboard/run.html", context), version)
