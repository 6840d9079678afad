"""The age of a price's last confirmation, and when it is too old to be trusted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from advisor.pricing.price import PriceRow

STALE_AFTER: Mapping[str, timedelta] = {"spot": timedelta(days=7)}
"""The ages from which on prices are stale, by purchase option. A spot price changes within days;
AWS keeps 90 days of them."""
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
    """Return the staleness, or None for prices that can't go stale: own rates, prices that were
    replaced, and prices without a confirmation date.
    """
    is_past = row.valid_to is not None and row.valid_to <= now
    if row.seen_at is None or not row.is_list or is_past:
        return None
    threshold = STALE_AFTER.get(row.key.purchase_option, LIST_STALE_AFTER)
    return Staleness(max(now - row.seen_at, timedelta()), threshold)


@dataclass(frozen=True)
class UsedPrice:
    """A list price without an end date, and the last day that was charged at it."""

    purchase_option: str
    seen_at: datetime
    last_day: date


@dataclass(frozen=True)
class OldPrices:
    """Charged prices that had not been confirmed for too long: when they last were."""

    first: date
    last: date
    options: frozenset[str]

    @property
    def words(self) -> str:
        """`List price of 2026-07-20`."""
        spot, listed = "spot" in self.options, self.options != {"spot"}
        kind = "List and spot" if spot and listed else "Spot" if spot else "List"
        if self.first == self.last and not (spot and listed):
            return f"{kind} price of {self.first}"
        days = f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"
        return f"{kind} prices of {days}"


def old_prices(used: Iterable[UsedPrice]) -> OldPrices | None:
    """Return the prices whose last confirmation was too old on the last day; None if there are
    none.
    """
    old = [each for each in used if _is_old(each)]
    if not old:
        return None
    days = [each.seen_at.date() for each in old]
    return OldPrices(min(days), max(days), frozenset(each.purchase_option for each in old))


def _is_old(used: UsedPrice) -> bool:
    threshold = STALE_AFTER.get(used.purchase_option, LIST_STALE_AFTER)
    return used.last_day - used.seen_at.date() > threshold
