"""The providers of machines: their services, names, minimums and price sources.

Each module or package here with a `PROVIDER`, or several `PROVIDERS`, is registered automatically.
Its bundled prices and machines are `advisor/pricing/tables/NAME/prices.csv` and `hardware.csv`, if
it has any.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache, lru_cache
from types import MappingProxyType

from advisor.pricing.providers.provider import Provider, Service


@cache
def providers() -> Mapping[str, Provider]:
    """Return every provider, by name."""
    modules = [
        importlib.import_module(f"{__name__}.{m.name}") for m in pkgutil.iter_modules(__path__)
    ]
    every = [module.PROVIDER for module in modules if hasattr(module, "PROVIDER")]
    several = [each for module in modules for each in getattr(module, "PROVIDERS", ())]
    return MappingProxyType({each.name: each for each in (*every, *several)})


def provider(name: str) -> Provider:
    """Return the provider of this name; a generic one if the name is unknown."""
    return providers().get(name) or Provider()


@cache
def services() -> Mapping[str, Service]:
    """Return all services by name."""
    every = (service for each in providers().values() for service in each.services)
    return MappingProxyType({service.name: service for service in every})


@cache
def minimum_seconds() -> Mapping[str, int]:
    """Return service -> the least time that is billed for each start of a machine."""
    return MappingProxyType(
        {name: each.minimum_seconds for name, each in services().items() if each.minimum_seconds}
    )


@lru_cache(maxsize=4096)
def machine_name(instance_type: str) -> str:
    """Return the machine of a service's instance type: `p4d.24xlarge` for `ml.p4d.24xlarge`."""
    for service in services().values():
        instance_type = instance_type.removeprefix(service.type_prefix)
    return instance_type


def sold_as(service: str, machine: str) -> str:
    """Return a machine's name in a service."""
    known = services().get(service)
    return f"{known.type_prefix}{machine}" if known else machine


def availability_service(service: str) -> Service | None:
    """Return the service whose list of machines also applies to this one; None if it has its own
    list.
    """
    known = services().get(service)
    return services().get(known.availability_from) if known else None
