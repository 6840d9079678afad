"""The instance types available in a region, from the bundled table, later refreshes, and runs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import date, timedelta

from django.db.models import CharField, QuerySet

from advisor.pricing.catalogue import Catalogue, catalogue
from advisor.pricing.machine import DEFAULT_PROVIDER, InstanceType
from advisor.pricing.providers import machine_name, services, sold_as
from webapp.accounts.models import Workspace
from webapp.database.prepared import Models, Slot
from webapp.prices.models import Machine
from webapp.runs.machine_use import last_uses


def catalogue_in(region: str, provider: str = DEFAULT_PROVIDER) -> Catalogue:
    """Return the bundled types and those that a refresh found in the provider's region.

    A type that a complete list of the region lacks is unlisted there, whatever the bundled table
    says. Its prices are kept for old runs.
    """
    types = dict(catalogue())
    for row in _found(region=region, provider=provider):
        machine = types.get(row.instance_type) or InstanceType.from_document(row.hardware)
        types[row.instance_type] = as_offered(machine, row)
    return Catalogue(types)


def catalogue_for(workspace: Workspace, region: str, provider: str = DEFAULT_PROVIDER) -> Catalogue:
    """Return the types of a region, each unlisted one with the last day on which the workspace's
    runs used its family there.
    """
    types = catalogue_in(region, provider)
    missing = [each for each in types.values() if each.is_unlisted and each.provider == provider]
    days = family_days(workspace, {region}, missing)
    used = {each.name: replace(each, ran_on=days.get((each.family, region))) for each in missing}
    return Catalogue({**types, **used})


def family_days(
    workspace: Workspace, regions: Collection[str], unlisted: Collection[InstanceType]
) -> dict[tuple[str, str], date]:
    """Return (family, region) -> the last day on which the workspace's runs used a machine of it.

    Only the families of the types in `unlisted` are read, in one query; none if there are none.
    """
    families = {each.family for each in unlisted}
    if not families:
        return {}
    kin = {each.name for each in unlisted} | {
        name for name, each in catalogue().items() if each.family in families
    }
    sold = {sold_as(service, name) for service in services() for name in kin}
    days: dict[tuple[str, str], date] = {}
    for use in last_uses(workspace, regions, sold):
        key = machine_name(use.instance_type).partition(".")[0], use.region
        days[key] = max(use.day, days.get(key, use.day))
    return days


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
