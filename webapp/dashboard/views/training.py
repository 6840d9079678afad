"""The page of a training: its attempts, its ledger and its two figures."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.analysis.selectors import training_metrics
from webapp.analysis.selectors.training import training_of
from webapp.runs import scope


@require_safe
def training(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """Shows the training of any of its runs. With `metric` and `value`, shows what it cost to reach
    that value.
    """
    view = training_of(scope.run_or_404(request.workspace, run_id))
    named, value = request.GET.get("metric", ""), request.GET.get("value", "")
    shown = {
        "training": view,
        "ledger": view.ledger,
        "curves": training_metrics.draw_curves(view.curves),
        "asked": training_metrics.cost_to_reach(view.curves, named, value),
    }
    return render(request, "dashboard/training.html", shown)
