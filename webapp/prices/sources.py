"""Who is asked for prices and machines, and for which regions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from advisor.pricing.bundled import bundled_prices
from advisor.pricing.catalogue import catalogue
from advisor.pricing.providers.aws import pages
from advisor.pricing.providers.aws.offers import EC2, SAGEMAKER
from advisor.pricing.providers.aws.pages import Page
from webapp.runs.models import Node

SPOT, MACHINES = "spot", "machines"
SOURCES = (EC2, SAGEMAKER, MACHINES, SPOT)
SPOT_HISTORY = timedelta(days=7)
"""How far back spot prices are asked for at least; AWS keeps `SPOT_KEPT`."""
SPOT_KEPT = timedelta(days=90)


@dataclass(frozen=True)
class Part:
    """One source for one region: what is asked, written and gone on from by itself."""

    source: str
    region: str

    @property
    def name(self) -> str:
        return f"{self.source}/{self.region}"


def parts(regions: list[str], sources: list[str]) -> list[Part]:
    return [Part(source, region) for source in sources for region in regions]


def regions() -> list[str]:
    """Those of the bundled prices, and wherever a run has been."""
    bundled = {row.key.region for row in bundled_prices()}
    nodes = Node.objects.filter(provider__in=("", "aws"), instance_type__gt="", region__gt="")
    return sorted(bundled | set(nodes.values_list("region", flat=True).distinct()))


def pages_of(
    part: Part, token: str, started_at: datetime, last_at: datetime | None
) -> Iterator[Page[Any]]:
    """What is left of a part from `token` on.

    Args:
        last_at: when the part was last finished; spot prices are asked for from then on.
    """
    if part.source == MACHINES:
        return pages.machines(part.region, token)
    if part.source == SPOT:
        since = max(min(started_at - SPOT_HISTORY, last_at or started_at), started_at - SPOT_KEPT)
        return pages.spot_prices(part.region, _spot_types(part.region), since, token)
    return pages.offers(part.source, part.region, token)


def _spot_types(region: str) -> list[str]:
    """All accelerated types, and whatever ran there: a zone's spot prices change several times a
    day, and nobody asks for those of all 900 types."""
    accelerated = {name for name, machine in catalogue().items() if machine.gpu_count}
    used = Node.objects.filter(region=region, instance_type__gt="")
    names = {name.removeprefix("ml.") for name in used.values_list("instance_type", flat=True)}
    return sorted({name for name in accelerated if not catalogue()[name].retired} | names)
