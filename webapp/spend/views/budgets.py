"""Budgets and their state this month. Members create, change and delete them."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from webapp.accounts.access import PersonRequest, members_only
from webapp.analysis.selectors.old_prices import old_prices_of
from webapp.runs import undo
from webapp.runs.scope import jobs_of
from webapp.spend import changes, months, scope
from webapp.spend.bars import month_bars
from webapp.spend.budget_status import standings
from webapp.spend.forms import BudgetForm, FiguresForm


@require_safe
def budgets(request: PersonRequest) -> HttpResponse:
    """Shows the budgets, the worst state first."""
    now = timezone.now()
    month = months.current_month(request.workspace, now)
    context = {
        "month": month,
        "lines": standings(request.workspace, scope.budgets_of(request.workspace), now),
        "bars": month_bars(request.workspace, month),
        "old_prices": old_prices_of(
            scope.priced_parts_of(request.workspace).filter(day__gte=month.start.date())
        ),
    }
    return render(request, "spend/budgets.html", context)


@members_only
@require_http_methods(["GET", "POST"])
def new_budget(request: PersonRequest) -> HttpResponse:
    """Creates a budget. `?job=UUID` chooses a job."""
    jobs = jobs_of(request.workspace).only("workspace", "uuid", "name").order_by("name")
    chosen = request.GET.get("job", "")
    initial = {"kind": "job" if chosen else "workspace", "job": chosen, "threshold_pct": 80}
    taken = scope.budgets_of(request.workspace)
    form = BudgetForm(jobs, taken, request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        budget = form.budget()
        budget.workspace = request.workspace
        changes.create_budget(budget, request.user)
        messages.success(request, "Added.")
        return redirect("spend:budgets")
    return render(request, "spend/edit_budget.html", {"form": form})


@members_only
@require_http_methods(["GET", "POST"])
def edit_budget(request: PersonRequest, budget_uuid: UUID) -> HttpResponse:
    """Change a budget's amount and threshold."""
    budget = get_object_or_404(scope.budgets_of(request.workspace), uuid=budget_uuid)
    known = {"amount_usd": f"{budget.amount_usd:.2f}", "threshold_pct": budget.threshold_pct}
    form = FiguresForm(request.POST or None, initial=known)
    if request.method == "POST" and form.is_valid():
        changes.change(budget, request.user, **form.cleaned_data)
        messages.success(request, "Saved.")
        return redirect("spend:budgets")
    return render(request, "spend/edit_budget.html", {"form": form, "budget": budget})


@members_only
@require_POST
def delete_budget(request: PersonRequest, budget_uuid: UUID) -> HttpResponse:
    """Deletes a budget. Deleting it again changes nothing."""
    budget = get_object_or_404(scope.every_budget_of(request.workspace), uuid=budget_uuid)
    if budget.deleted_at is None:
        changes.delete(budget, request.user)
    address = reverse("spend:restore_budget", args=[budget.uuid])
    undo.offer(request, f"The budget “{budget}” is deleted.", address)
    return redirect("spend:budgets")


@members_only
@require_POST
def restore_budget(request: PersonRequest, budget_uuid: UUID) -> HttpResponse:
    budget = get_object_or_404(scope.every_budget_of(request.workspace), uuid=budget_uuid)
    if budget.deleted_at is not None and not changes.restore(budget, request.user):
        messages.warning(request, "Not restored: the job, tag or workspace has another budget now.")
    else:
        messages.success(request, "Budget restored.")
    return redirect("spend:budgets")
