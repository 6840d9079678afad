"""The age of a price's last confirmation, and when it is too old to be trusted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from advisor.pricing.price import PriceRow

STALE_AFTER: Mapping[str, timedelta] = {"spot": timedelta(days=7)}
"""By purchase option. A spot price changes within days; AWS keeps 90 days of them."""
LIST_STALE_AFTER = timedelta(days=90)
"""List prices rarely change (AWS's GPU prices: June 2025), but new types come every quarter."""


@dataclass(frozen=True)
class Staleness:
    """`age` is the time since the source last confirmed it."""

    age: timedelta
    threshold: timedelta

    @property
    def is_stale(self) -> bool:
        return self.age > self.threshold


def staleness(row: PriceRow, now: datetime) -> Staleness | None:
    """None for prices that can't go stale: own rates, prices that were replaced, and prices without
    a confirmation date."""
    is_past = row.valid_to is not None and row.valid_to <= now
    if row.seen_at is None or not row.is_list or is_past:
        return None
    threshold = STALE_AFTER.get(row.key.purchase_option, LIST_STALE_AFTER)
    return Staleness(max(now - row.seen_at, timedelta()), threshold)
