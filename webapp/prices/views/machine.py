"""One instance type: hardware, availability and all known prices."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from advisor.pricing.catalogue import catalogue
from advisor.pricing.gpus import gpu_models
from webapp.accounts.access import PersonRequest
from webapp.prices import scope
from webapp.prices.selectors import explorer

MOST_ROWS = 200


@require_safe
def machine(request: PersonRequest, instance_type: str) -> HttpResponse:
    """Shows an instance type; 404 for one without a price and a description."""
    instance_type = instance_type.replace("\0", "")
    hardware = explorer.hardware(instance_type)
    known = scope.prices_of(request.workspace).filter(instance_type=instance_type)
    prices = known.order_by("region", "service", "purchase_option", "zone", "-valid_from")
    if hardware is None and not prices:
        raise Http404("Unknown instance type: it has no price and no description.")
    context = {
        "name": instance_type,
        "machine": hardware,
        "gpu": gpu_models().get(hardware.gpu_key) if hardware else None,
        "regions": explorer.machines_of(instance_type),
        "prices": prices[:MOST_ROWS],
        "is_bundled": instance_type in catalogue(),
    }
    return render(request, "prices/machine.html", context)
