"""A price as a dated row, and the book that finds the one that holds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal


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
    precedence: int = 0
    """The higher wins: bundled 0, refreshed 10, own rate 20."""
    estimated: bool = False
    id: int | None = None
    """The database row it came from, so that a cost can name it."""
