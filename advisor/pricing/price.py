"""A price as a dated row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

BUNDLED, CATALOGUE, REFRESHED = 0, 5, 10
"""Precedence of list prices: bundled with this version, read from the public catalogue, read from
the provider itself."""
FLAT_DISCOUNT, FAMILY_DISCOUNT = 20, 40
"""The precedence that a discount adds to that of its list price."""
OWN_RATE = 100
"""Precedence of a row; the highest wins. Values below the flat discount's are list prices."""


@dataclass(frozen=True, order=True)
class PriceKey:
    """The key of a price. An empty zone is "any zone of the region".

    A workspace's own rate may also leave the region or the instance type empty, for "any".
    """

    provider: str
    """`aws`, `gcp`, `azure`, `on_premises`."""
    service: str
    """`ec2`, `sagemaker_training`, `gpu_hour` (a GPU of your own machine), ..."""
    region: str
    instance_type: str
    """The instance type; for `gpu_hour`, the GPU model."""
    purchase_option: str = "on_demand"
    zone: str = ""
    operating_system: str = "linux"


@dataclass(frozen=True)
class PriceRow:
    """USD per hour of one machine, from `valid_from` (inclusive) to `valid_to` (exclusive).

    For the service `gpu_hour`, of one GPU.
    """

    key: PriceKey
    usd_per_hour: Decimal
    valid_from: datetime
    valid_to: datetime | None
    source: str
    precedence: int = BUNDLED
    estimated: bool = False
    id: int | None = None
    """The id of its database row, so that a cost can refer to it."""
    seen_at: datetime | None = None
    """The time when its source last confirmed it; None if unknown, or for an own rate."""
    usd_per_kwh: Decimal | None = None
    """The price of electricity beside `usd_per_hour`; only an own rate of own machines has one."""
    pue: Decimal | None = None
    """Power usage effectiveness: the data centre's energy over that of its machines, at least 1;
    None without `usd_per_kwh`."""
    note: str = ""
    """The reason why it ends, or what another source says: "contradicted by SOURCE on DATE: $X"."""

    def holds_at(self, when: datetime) -> bool:
        return self.valid_from <= when and (self.valid_to is None or when < self.valid_to)

    @property
    def is_list(self) -> bool:
        """Return whether it is the provider's price, before discounts and negotiated rates."""
        return self.precedence < FLAT_DISCOUNT
