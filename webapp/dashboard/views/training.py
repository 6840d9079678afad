"""The page of a training: its attempts, its ledger and its two figures."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from webapp.accounts.access import PersonRequest
from webapp.analysis.selectors.training import training_of
from webapp.runs import scope


@require_safe
def training(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """Of any of its runs."""
    view = training_of(scope.run_or_404(request.workspace, run_id))
    return render(request, "dashboard/training.html", {"training": view, "ledger": view.ledger})
