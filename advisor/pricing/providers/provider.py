"""The interface of a provider of machines. Providers override what differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeVar

from advisor.pricing.machine import InstanceType
from advisor.pricing.price import REFRESHED, PriceKey, PriceRow

MACHINE = "machine"
"""The service of a machine if nothing else is known."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Service:
    """A service under which a provider sells machines."""

    name: str
    """The name in price rows, and as agents report it."""
    title: str
    type_prefix: str = ""
    """Prefix of the machine's name: SageMaker sells X as `ml.X`."""
    minimum_seconds: int = 0
    """The minimum time billed for each start of a machine."""
    availability_from: str = ""
    """The service whose list of machines also applies to this one; empty: it has its own."""


@dataclass(frozen=True)
class PriceSource:
    """One list that a provider has for a region."""

    name: str
    """Unique among all providers."""
    kind: Literal["offers", "spot", "machines"] = "offers"


@dataclass(frozen=True)
class Offer:
    """A price and its start date."""

    key: PriceKey
    usd_per_hour: Decimal
    effective_from: datetime
    source: str
    """The source as shown with costs."""
    precedence: int = REFRESHED
    estimated: bool = False
    note: str = ""


@dataclass(frozen=True)
class SpotPrice:
    """The price of a spot machine in a zone from `since` on."""

    key: PriceKey
    usd_per_hour: Decimal
    since: datetime
    source: str


@dataclass(frozen=True)
class PricePage(Generic[Item]):
    """The items of one page, and the token of the next page; empty at the end."""

    items: tuple[Item, ...]
    next_token: str


class ProviderError(Exception):
    """The provider refuses or can't be reached. The message says why."""


class TokenRefusedError(ProviderError):
    """A list can't be resumed from this page and must be restarted."""


class Provider:
    """The machines of AWS, of Google Cloud, own ones, ...; found by `advisor.pricing.providers`."""

    name = ""
    """The name in price rows, and as agents report it."""
    title = ""
    services: tuple[Service, ...] = ()
    purchase_options: Mapping[str, str] = MappingProxyType(
        {"on_demand": "On demand", "spot": "Spot", "reserved": "Reserved"}
    )
    """Name in price rows -> displayed name."""
    needs_instance_type = False
    """True if every price is for one type, so that an own rate for "any type" is an error."""
    sources: tuple[PriceSource, ...] = ()
    """The lists that can be refreshed; empty: bundled prices and own rates only."""
    usual_regions: tuple[str, ...] = ()
    """The regions that are refreshed even without a run there."""

    def service_of(self, instance_type: str) -> str:
        """Return the service of a machine if its agent didn't report one."""
        return MACHINE

    def priced_as(self, instance_type: str, gpus: int, gpu_key: str) -> str:
        """Return the name in price rows of a machine with these GPUs.

        Args:
            instance_type: as declared, or as the metadata service names it.
        """
        return instance_type

    def short_name(self, instance_type: str) -> str:
        """Return the name in price rows as it may have been declared, and as an own rate may name
        it.
        """
        return instance_type

    def priced_like(self, key: PriceKey) -> PriceKey | None:
        """Return the key of a price to estimate an unknown one from; None if not possible."""
        return None

    def estimates(
        self, key: PriceKey, machine: InstanceType | None, rows: Iterable[PriceRow]
    ) -> Iterator[PriceRow]:
        """Yield prices of `key`, estimated from the rows of `priced_like(key)`.

        Args:
            machine: what is known of its hardware.
        """
        return iter(())

    def has_credentials(self) -> bool:
        """Return whether there are credentials to refresh with."""
        return False

    def pages(
        self,
        source: str,
        region: str,
        token: str,
        since: datetime,
        instance_types: Sequence[str],
    ) -> Iterator[PricePage[Any]]:
        """Yield the remaining pages of a list of offers, spot prices or machines, from `token` on.

        Args:
            since: spot prices from then on.
            instance_types: spot prices of these types only.

        Raises:
            ProviderError: the list can't be read; `TokenRefusedError`: restart it.
        """
        raise ProviderError(f"{self.title} has no source {source}")
