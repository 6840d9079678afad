"""The scheduler for which a person's pages write how to start a run."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from advisor.advice.launching import SCHEDULERS
from webapp.accounts.access import PersonRequest, open_to_viewers


@open_to_viewers
@require_POST
def choose_scheduler(request: PersonRequest) -> HttpResponse:
    """Keeps the person's choice, and returns to the page `next`."""
    chosen = request.POST.get("scheduler", "")
    if chosen in SCHEDULERS:
        request.user.scheduler = chosen
        request.user.save(update_fields=["scheduler"])
    wanted = request.POST.get("next", "")
    is_own = url_has_allowed_host_and_scheme(wanted, {request.get_host()}, request.is_secure())
    return redirect(wanted if is_own else "advice:inbox")
