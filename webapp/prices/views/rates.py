"""The workspace's rates: discounts, own prices and own machines."""

from __future__ import annotations

from io import StringIO
from typing import Any

from django.contrib import messages
from django.db.models import Min
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from advisor.pricing import csv_rows
from webapp.accounts.access import PersonRequest, owners_only
from webapp.accounts.models import Workspace
from webapp.prices import rates as changes
from webapp.prices import scope
from webapp.prices.book import to_price_row
from webapp.prices.forms import DiscountForm, ImportForm, RateForm
from webapp.runs.scope import runs_of

MOST_SHOWN = 20
"""The most errors shown for a file."""


@require_safe
def rates(request: PersonRequest) -> HttpResponse:
    """Shows the rates. All members can see them; owners can change them."""
    return _page(request)


@owners_only
@require_POST
def add_rate(request: PersonRequest) -> HttpResponse:
    """Adds an own price of a machine or a GPU-hour."""
    form = RateForm(request.POST)
    if form.is_valid():
        added = changes.add_rates(request.workspace, request.user, [form.rate])
        if not added.refused:
            messages.success(request, "Added." if added.new else "This rate exists already.")
            return redirect("prices:rates")
        form.add_error(None, added.refused[0])
    return _page(request, rate_form=form)


@owners_only
@require_POST
def add_discount(request: PersonRequest) -> HttpResponse:
    """Adds a discount on all list prices or on a family's."""
    form = DiscountForm(request.POST)
    if form.is_valid():
        changes.add_discount(request.workspace, request.user, form.discount())
        messages.success(request, "Added.")
        return redirect("prices:rates")
    return _page(request, discount_form=form)


@owners_only
@require_POST
def import_rates(request: PersonRequest) -> HttpResponse:
    """Imports own rates from CSV: all lines, or none with the reasons."""
    form = ImportForm(request.POST, request.FILES)
    if not form.is_valid():
        return _page(request, import_form=form)
    rates_read, refused = csv_rows.read(StringIO(form.cleaned_data["file"], newline=""))
    if refused:
        return _page(request, import_form=form, refused=[str(each) for each in refused])
    added = changes.add_rates(request.workspace, request.user, rates_read)
    if added.refused:
        return _page(request, import_form=form, refused=added.refused)
    messages.success(request, f"{added.new} added, {added.unchanged} unchanged.")
    return redirect("prices:rates")


@owners_only
@require_POST
def end_rate(request: PersonRequest, price_id: int) -> HttpResponse:
    """Ends a rate. It holds until now; what it priced keeps its cost."""
    row = get_object_or_404(scope.own_rates_of(request.workspace), pk=price_id)
    return _ended(request, changes.stop_rate(row, request.user, timezone.now()))


@owners_only
@require_POST
def end_discount(request: PersonRequest, discount_id: int) -> HttpResponse:
    """Ends a discount. It holds until now; what it priced keeps its cost."""
    row = get_object_or_404(scope.discounts_of(request.workspace), pk=discount_id)
    return _ended(request, changes.stop_rate(row, request.user, timezone.now()))


@require_safe
def as_csv(request: PersonRequest) -> StreamingHttpResponse:
    """Answers the own rates as CSV that `import_rates` accepts."""
    own = (to_price_row(row) for row in scope.own_rates_of(request.workspace))
    answer = StreamingHttpResponse(csv_rows.lines(own), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="rates.csv"'
    return answer


def _ended(request: PersonRequest, did: bool) -> HttpResponse:
    messages.success(request, "Ended." if did else "Already ended.")
    return redirect("prices:rates")


def _first_day(workspace: Workspace) -> str:
    """Return the day of the first run, from which a new rate prices all runs; empty without one."""
    first = runs_of(workspace).aggregate(Min("started_at"))["started_at__min"]
    return f"{first:%Y-%m-%d}" if first else ""


def _page(request: PersonRequest, refused: list[str] | None = None, **forms: Any) -> HttpResponse:
    lines = refused or []
    today = f"{timezone.now():%Y-%m-%d}"
    context = {
        "rate_form": RateForm(initial={"valid_from": _first_day(request.workspace) or today}),
        "discount_form": DiscountForm(initial={"valid_from": today}),
        "import_form": ImportForm(),
        "now": timezone.now(),
        "own_rates": scope.own_rates_of(request.workspace),
        "discounts": scope.discounts_of(request.workspace),
        "refused": lines[:MOST_SHOWN],
        "refused_more": max(len(lines) - MOST_SHOWN, 0),
        **forms,
    }
    return render(request, "prices/rates.html", context)
