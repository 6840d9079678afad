"""The instance types available in a region, from the bundled table and later refreshes."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from django.db.models import CharField, QuerySet

from advisor.pricing.catalogue import Catalogue, InstanceType, catalogue
from advisor.pricing.providers import DEFAULT
from webapp.database.prepared import Models, Slot
from webapp.prices.models import Machine


def catalogue_in(region: str, provider: str = DEFAULT) -> Catalogue:
    """Return the bundled types and those that a refresh found in the provider's region.

    A type that a complete list of the region lacks is unlisted there, whatever the bundled table
    says. Its prices are kept for old runs.
    """
    types = dict(catalogue())
    for row in _found(region=region, provider=provider):
        machine = types.get(row.instance_type) or InstanceType.from_document(row.hardware)
        types[row.instance_type] = as_offered(machine, row)
    return Catalogue(types)


@Models
def _found() -> QuerySet[Machine]:
    region, provider = Slot("region", CharField()), Slot("provider", CharField())
    return Machine.objects.filter(region=region, provider=provider)


def as_offered(machine: InstanceType, row: Machine) -> InstanceType:
    """Return the machine as the newest complete list of the row's region has it."""
    if row.gone_at is None:
        return replace(machine, is_unlisted=False) if machine.is_unlisted else machine
    day = min(row.last_seen_at, row.gone_at - timedelta(days=1)).date()
    first_seen = min(machine.first_seen, day)
    return replace(machine, is_unlisted=True, first_seen=first_seen, last_seen=day)
