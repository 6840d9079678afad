"""What this workspace pays: discounts, own prices, own machines."""

from __future__ import annotations

from io import StringIO
from typing import Any

from django.contrib import messages
from django.http import HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_POST, require_safe

from advisor.pricing import csv_rows
from webapp.accounts.access import PersonRequest, owners_only
from webapp.prices import rates as changes
from webapp.prices import scope
from webapp.prices.book import plain
from webapp.prices.forms import DiscountForm, ImportForm, RateForm

MOST_SHOWN = 20
"""Of the lines of a file that can't be read."""


@require_safe
def rates(request: PersonRequest) -> HttpResponse:
    """Everybody in the workspace reads them; owners change them."""
    return _page(request)


@owners_only
@require_POST
def add_rate(request: PersonRequest) -> HttpResponse:
    """An own price of a machine, or of a GPU-hour."""
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
    """A percentage off the list, of everything or of a family."""
    form = DiscountForm(request.POST)
    if form.is_valid():
        changes.add_discount(request.workspace, request.user, form.discount())
        messages.success(request, "Added.")
        return redirect("prices:rates")
    return _page(request, discount_form=form)


@owners_only
@require_POST
def import_rates(request: PersonRequest) -> HttpResponse:
    """Own rates from CSV: all of its lines, or none and the reasons."""
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
    """It holds until now; what it priced keeps its cost."""
    row = get_object_or_404(scope.own_rates_of(request.workspace), pk=price_id)
    return _ended(request, changes.end(row, request.user, timezone.now()))


@owners_only
@require_POST
def end_discount(request: PersonRequest, discount_id: int) -> HttpResponse:
    """It holds until now; what it priced keeps its cost."""
    row = get_object_or_404(scope.discounts_of(request.workspace), pk=discount_id)
    return _ended(request, changes.end(row, request.user, timezone.now()))


@require_safe
def as_csv(request: PersonRequest) -> StreamingHttpResponse:
    """The own rates, as `import_rates` takes them."""
    own = (plain(row) for row in scope.own_rates_of(request.workspace))
    answer = StreamingHttpResponse(csv_rows.lines(own), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="rates.csv"'
    return answer


def _ended(request: PersonRequest, did: bool) -> HttpResponse:
    messages.success(request, "Ended." if did else "Already ended.")
    return redirect("prices:rates")


def _page(request: PersonRequest, refused: list[str] | None = None, **forms: Any) -> HttpResponse:
    lines = refused or []
    context = {
        "rate_form": RateForm(),
        "discount_form": DiscountForm(),
        "import_form": ImportForm(),
        "now": timezone.now(),
        "own_rates": scope.own_rates_of(request.workspace),
        "discounts": scope.discounts_of(request.workspace),
        "refused": lines[:MOST_SHOWN],
        "refused_more": max(len(lines) - MOST_SHOWN, 0),
        **forms,
    }
    return render(request, "prices/rates.html", context)
