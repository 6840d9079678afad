"""Joins a run with a training, and splits it from one."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from webapp.accounts.access import PersonRequest, members_only
from webapp.analysis.trainings import joining
from webapp.runs import scope, undo
from webapp.runs.models import Run, Training

MOST_CHARACTERS = 400


@members_only
@require_POST
def join_training(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """Joins the run with `other`: a run, as pages or the API name it, or the key of a training."""
    run = scope.run_or_404(request.workspace, run_id)
    named = request.POST.get("other", "").strip()[:MOST_CHARACTERS].replace(" #", "#")
    try:
        other = scope.training_run(request.workspace, named)
        before = joining.join(run, request.user, other)
    except Http404:
        messages.error(
            request, "There is no such run or training. Name it as JOB#NUMBER or by key."
        )
    except joining.JoiningError as error:
        messages.error(request, str(error))
    else:
        _offer_undo(request, run, f"{run} was joined with {other}.", before)
    return redirect("dashboard:training", run.pk)


@members_only
@require_POST
def split_training(request: PersonRequest, run_id: UUID) -> HttpResponse:
    run = scope.run_or_404(request.workspace, run_id)
    before = joining.split(run, request.user)
    _offer_undo(request, run, f"{run} is a training of its own.", before)
    return redirect("dashboard:training", run.pk)


@members_only
@require_POST
def put_back_training(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """Puts the run back. `training` is the id of the one that it was a part of, or empty."""
    run = scope.run_or_404(request.workspace, run_id)
    before: UUID | None = None
    with suppress(ValueError):
        before = UUID(request.POST.get("training", ""))
    joining.undo_change(run, request.user, before)
    messages.success(request, f"{run} was put back.")
    return redirect("dashboard:training", run.pk)


def _offer_undo(request: PersonRequest, run: Run, done: str, before: Training | None) -> None:
    address = reverse("analysis:put_back_training", args=[run.pk])
    undo.offer(request, done, address, training=str(before.uuid) if before else "")
