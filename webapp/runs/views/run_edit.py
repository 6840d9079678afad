"""The forms to edit a run: details, machine, billed amount."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from advisor.money import display_usd
from advisor.pricing.catalogue import catalogue
from advisor.pricing.providers import provider
from webapp.accounts.access import PersonRequest, members_only
from webapp.runs import scope
from webapp.runs.editing import machines, runs
from webapp.runs.forms import BillForm, MachineForm, RunForm
from webapp.runs.models import Run


@members_only
@require_http_methods(["GET", "POST"])
def edit_run(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """Edits note, owner, tags, and use as a baseline."""
    run = scope.run_or_404(request.workspace, run_id)
    form = RunForm(request.POST) if request.method == "POST" else RunForm.from_run(run)
    if request.method == "POST" and form.is_valid():
        runs.edit(run, request.user, form.values())
        messages.success(request, "Saved.")
        return redirect("dashboard:run", run.pk)
    return _page(request, run, form=form)


@members_only
@require_POST
def bill_run(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """Edits the billed amount."""
    run = scope.run_or_404(request.workspace, run_id)
    form = BillForm(request.POST)
    if not form.is_valid():
        return _page(request, run, bill_form=form)
    runs.bill(run, request.user, form.cleaned_data["billed_usd"])
    messages.success(request, "Saved.")
    return redirect("dashboard:run", run.pk)


@members_only
@require_POST
def correct_machine(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """Corrects the machine. The run is priced again at once."""
    run = scope.run_or_404(request.workspace, run_id)
    form = MachineForm(machines.nodes_of(run), request.POST)
    if not form.is_valid():
        return _page(request, run, machine_form=form)
    is_confirmed = bool(request.POST.get("is_confirmed"))
    try:
        priced = machines.correct_machines(
            run, request.user, form.values(), form.node_number, is_confirmed=is_confirmed
        )
    except machines.UnpricedMachineError as doubt:
        return _page(request, run, machine_form=form, doubt=doubt)
    messages.success(request, f"Saved. {_costs(priced)}")
    return redirect("dashboard:run", run.pk)


@members_only
@require_POST
def take_back_correction(request: PersonRequest, run_id: UUID) -> HttpResponse:
    """Restores the agent's values on every machine."""
    run = scope.run_or_404(request.workspace, run_id)
    priced = machines.restore_agent_values(run, request.user)
    messages.success(request, f"The agent's values were restored. {_costs(priced)}")
    return redirect("dashboard:run", run.pk)


def _costs(run: Run) -> str:
    if run.cost_usd is None:
        return "No price is known for this machine."
    return f"The run now costs {display_usd(run.cost_usd)}."


def _page(request: PersonRequest, run: Run, **forms: Any) -> HttpResponse:
    nodes = machines.nodes_of(run)
    context = {
        "run": run,
        "form": RunForm.from_run(run),
        "bill_form": BillForm.from_run(run),
        "machine_form": MachineForm(nodes),
        "nodes": nodes,
        "corrected": [node for node in nodes if node.declared],
        "instance_types": sorted(
            (name, provider(machine.provider).title) for name, machine in catalogue().items()
        ),
        **forms,
    }
    return render(request, "runs/edit_run.html", context)
