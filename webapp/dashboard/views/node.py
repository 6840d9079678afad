"""The page of one node of a run: what it did, cost and was found to be."""

from __future__ import annotations

from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.dashboard.selectors.node import node_page
from webapp.runs import scope
from webapp.runs.history import nodes_of


@require_safe
def node(request: PersonRequest, run_id: UUID, node_number: int) -> HttpResponse:
    run = scope.run_or_404(request.workspace, run_id)
    nodes = nodes_of(run)
    chosen = next((each for each in nodes if each.number == node_number), None)
    if chosen is None:
        raise Http404
    page = node_page(run, chosen, nodes)
    context = {"run": run, "page": page, "chart": page.chart_document()}
    context["charts_address"] = reverse("dashboard:run_charts", args=[run.pk])
    context["csv_address"] = reverse("runs:series_csv", args=[run.pk])
    return render(request, "dashboard/node.html", context)
