"""The advice settings."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from webapp.accounts.access import PersonRequest, changed_by_owners
from webapp.advice import allowing
from webapp.advice.forms import BuyingForm


@changed_by_owners
@require_http_methods(["GET", "POST"])
def buying(request: PersonRequest) -> HttpResponse:
    """Edits which ways to buy, and which regions, the advisor may propose."""
    form = BuyingForm(request.workspace, request.POST or None)
    if request.method == "POST" and form.is_valid():
        allowed = form.cleaned_data
        allowing.save(request.workspace, request.user, allowed["may_buy"], allowed["other_regions"])
        messages.success(request, "Saved. Recommendations are renewed within minutes.")
        return redirect("advice:buying")
    return render(request, "advice/buying.html", {"form": form})
