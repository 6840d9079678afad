"""What the rest needs to know of a provider of machines. A provider overrides what differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

from advisor.pricing.price import PriceKey, PriceRow

MACHINE = "machine"
"""The service of a machine of which nothing else is known."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Service:
    """What a provider sells machines as."""

    name: str
    """In price rows, and as agents report it."""
    title: str
    type_prefix: str = ""
    """Stands before the name of the machine: SageMaker sells X as `ml.X`."""
    minimum_seconds: int = 0
    """Billed at least, for each start of a machine."""
    availability_from: str = ""
    """The service whose list of machines is used for this one too; empty: it has its own."""


@dataclass(frozen=True)
class PriceSource:
    """One list that a provider gives for a region."""

    name: str
    """Unique among all providers."""
    kind: Literal["offers", "spot", "machines"] = "offers"


@dataclass(frozen=True)
class Offer:
    """An on-demand price, and since when it is valid."""

    key: PriceKey
    usd_per_hour: Decimal
    effective_from: datetime
    source: str
    """As a cost names it."""


@dataclass(frozen=True)
class SpotPrice:
    """What a spot machine cost in a zone from `since` on."""

    key: PriceKey
    usd_per_hour: Decimal
    since: datetime
    source: str


@dataclass(frozen=True)
class Page(Generic[Item]):
    """What one answer held, and the token of the next; empty at the end."""

    items: tuple[Item, ...]
    next_token: str


class ProviderError(Exception):
    """The provider refuses or can't be reached; the message says why."""


class TokenRefusedError(ProviderError):
    """A list can't be resumed from this page; begin again."""


class Provider:
    """Of AWS, Google Cloud, own machines, ...; found by `advisor.pricing.providers`."""

    name = ""
    """In price rows, and as agents report it."""
    title = ""
    services: tuple[Service, ...] = ()
    purchase_options: Mapping[str, str] = MappingProxyType(
        {"on_demand": "On demand", "spot": "Spot"}
    )
    """As price rows name them -> for a person."""
    needs_instance_type = False
    """Whether every price is of one type: then an own rate for "any type" is a mistake."""
    sources: tuple[PriceSource, ...] = ()
    """The lists that can be refreshed; empty: bundled prices and own rates only."""

    def service_of(self, instance_type: str) -> str:
        """The service of a machine whose agent didn't name one."""
        return MACHINE

    def priced_like(self, key: PriceKey) -> PriceKey | None:
        """What an unknown price can be estimated from; None: from nothing."""
        return None

    def estimates(self, key: PriceKey, rows: Iterable[PriceRow]) -> Iterator[PriceRow]:
        """Prices of `key` from the rows of `priced_like(key)`."""
        return iter(())

    def has_credentials(self) -> bool:
        """Whether there are credentials to refresh with."""
        return False

    def pages(
        self,
        source: str,
        region: str,
        token: str,
        since: datetime,
        instance_types: Sequence[str],
    ) -> Iterator[Page[Any]]:
        """What is left of a list of offers, spot prices or machines from `token` on.

        Args:
            since: spot prices from then on.
            instance_types: spot prices of these alone.

        Raises:
            ProviderError: it can't be had; `TokenRefusedError`: begin again.
        """
        raise ProviderError(f"{self.title} has no source {source}")
