"""The sources of prices and machines, by provider and region."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from advisor.pricing.bundled import bundled_prices
from advisor.pricing.catalogue import catalogue
from advisor.pricing.machine import DEFAULT_PROVIDER
from advisor.pricing.providers import machine_name, provider, providers
from advisor.pricing.providers.provider import PricePage, PriceSource, Provider
from webapp.runs.models import Node

SPOT_HISTORY = timedelta(days=7)
"""The minimum time range of spot prices."""
SPOT_KEPT = timedelta(days=90)
"""The maximum time range of spot prices."""


def _known() -> Iterator[tuple[Provider, PriceSource]]:
    for seller in providers().values():
        yield from ((seller, source) for source in seller.sources)


SOURCES = tuple(source.name for _, source in _known())


@dataclass(frozen=True)
class SourceRegion:
    """One source for one region: the unit of refreshing and resuming."""

    source: str
    region: str

    @property
    def name(self) -> str:
        return f"{self.source}/{self.region}"

    @classmethod
    def from_name(cls, name: str) -> SourceRegion:
        source, _, region = name.partition("/")
        return cls(source, region)

    @property
    def kind(self) -> str:
        """Return `offers`, `spot` or `machines`. A file of offers isn't a provider's source."""
        return next((s.kind for _, s in _known() if s.name == self.source), "offers")

    @property
    def provider(self) -> str:
        return self.seller.name

    @property
    def seller(self) -> Provider:
        return next(seller for seller, s in _known() if s.name == self.source)


def parts(sources: Iterable[str], regions: Sequence[str] = ()) -> list[SourceRegion]:
    """Return each source in each region; without regions, in the usual ones and those of all
    runs."""
    sellers = {source.name: seller for seller, source in _known()}
    return [
        SourceRegion(source, region)
        for source in sources
        for region in regions or regions_of(sellers[source].name)
    ]


def askable() -> list[str]:
    """Return the sources of providers with credentials."""
    return [
        s.name for p in providers().values() if p.sources and p.has_credentials() for s in p.sources
    ]


def regions_of(name: str) -> list[str]:
    """Return the provider's usual regions and those of all runs."""
    names = (name, "") if name == DEFAULT_PROVIDER else (name,)
    nodes = Node.objects.filter(provider__in=names, instance_type__gt="", region__gt="")
    used = nodes.values_list("region", flat=True).distinct()
    return sorted({*provider(name).usual_regions, *used})


def bundled_regions() -> list[str]:
    """Return the regions with bundled prices of the providers that can be refreshed."""
    sellers = {seller.name for seller, _ in _known()}
    keys = (row.key for row in bundled_prices())
    return sorted({key.region for key in keys if key.provider in sellers} - {""})


def pages_of(
    part: SourceRegion, token: str, started_at: datetime, last_at: datetime | None
) -> Iterator[PricePage[Any]]:
    """Return the remaining pages of a part, from `token` on.

    Args:
        last_at: when the part was last refreshed; spot prices are read from then on.
    """
    since = max(min(started_at - SPOT_HISTORY, last_at or started_at), started_at - SPOT_KEPT)
    types = _spot_types(part) if part.kind == "spot" else []
    return part.seller.pages(part.source, part.region, token, since, types)


def _spot_types(part: SourceRegion) -> list[str]:
    """Return all accelerated types, and those of runs there. A zone's spot prices change several
    times a day, too often for all 900 types.
    """
    accelerated = {
        name
        for name, machine in catalogue().items()
        if machine.gpu_count and machine.provider == part.provider and not machine.is_unlisted
    }
    used = Node.objects.filter(region=part.region, instance_type__gt="")
    return sorted(
        accelerated | set(map(machine_name, used.values_list("instance_type", flat=True)))
    )
