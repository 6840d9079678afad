"""Which instance types can be started in a region: the bundled table, and what AWS said since."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from advisor.pricing.catalogue import Catalogue, InstanceType, catalogue
from webapp.prices.models import Machine


def catalogue_in(region: str) -> Catalogue:
    """The bundled types and those that AWS has described in the region since.

    A type that a complete list of the region no longer names is retired there, whatever the
    bundled table says; its prices stay, for old runs.
    """
    types = dict(catalogue())
    for told in Machine.objects.filter(region=region):
        machine = types.get(told.instance_type) or InstanceType.from_document(told.hardware)
        types[told.instance_type] = _as_offered(machine, told)
    return Catalogue(types)


def _as_offered(machine: InstanceType, told: Machine) -> InstanceType:
    if told.gone_at is None:
        return replace(machine, retired=False) if machine.retired else machine
    day = min(told.last_seen_at, told.gone_at - timedelta(days=1)).date()
    first_seen = min(machine.first_seen, day)
    return replace(machine, retired=True, first_seen=first_seen, last_seen=day)
