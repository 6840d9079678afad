"""A price as a dated row."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

BUNDLED, REFRESHED, OWN_RATE = 0, 10, 20
"""Precedence of a row; the higher wins."""


@dataclass(frozen=True, order=True)
class PriceKey:
    """What is priced. An empty zone is "any zone of the region"."""

    provider: str
    """`aws`, `gcp`, `azure`, `on_premises`."""
    service: str
    """`ec2`, `sagemaker_training`, ..."""
    region: str
    instance_type: str
    purchase_option: str = "on_demand"
    zone: str = ""
    operating_system: str = "linux"


@dataclass(frozen=True)
class PriceRow:
    """USD per hour of one machine, from `valid_from` (inclusive) to `valid_to` (exclusive)."""

    key: PriceKey
    usd_per_hour: Decimal
    valid_from: datetime
    valid_to: datetime | None
    source: str
    precedence: int = BUNDLED
    estimated: bool = False
    id: int | None = None
    """The database row it came from, so that a cost can name it."""

    def holds_at(self, when: datetime) -> bool:
        return self.valid_from <= when and (self.valid_to is None or when < self.valid_to)
