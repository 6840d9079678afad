"""Asks the providers for their present prices, in the background."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_POST

from webapp.accounts.access import PersonRequest, owners_only
from webapp.background import waking
from webapp.prices import refresh, sources

NO_CREDENTIALS = (
    "The service has no credentials of a provider. Its operator can read the public catalogue "
    "instead: manage.py refresh_prices --catalogue."
)


@owners_only
@require_POST
def update_prices(request: PersonRequest) -> HttpResponse:
    """Queues each part of the prices that wasn't refreshed in the last hours."""
    askable = sources.askable()
    if askable:
        refresh.want_due(sources.parts(askable), timezone.now())
        waking.wake()
        messages.success(request, "Prices are updated in the background.")
    else:
        messages.error(request, NO_CREDENTIALS)
    return redirect("prices:prices")
