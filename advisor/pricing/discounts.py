"""Discounts on list prices: a percentage, for all machines or one family."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from advisor.pricing.price import FAMILY_DISCOUNT, FLAT_DISCOUNT, PriceKey, PriceRow
from advisor.pricing.providers import machine_name


@dataclass(frozen=True)
class Discount:
    """Valid from `valid_from` (inclusive) to `valid_to` (exclusive). An empty field means "any"."""

    percent: Decimal
    """The percentage: above 0, below 100."""
    valid_from: datetime
    valid_to: datetime | None = None
    family: str = ""
    """`p4d`; SageMaker's `ml.p4d` is the same family."""
    service: str = ""
    purchase_option: str = ""

    @property
    def precedence(self) -> int:
        return FAMILY_DISCOUNT if self.family else FLAT_DISCOUNT

    def is_of(self, key: PriceKey) -> bool:
        family = machine_name(key.instance_type).partition(".")[0]
        return (
            self.family in ("", family)
            and self.service in ("", key.service)
            and self.purchase_option in ("", key.purchase_option)
        )


def apply_discounts(rows: Iterable[PriceRow], discounts: Iterable[Discount]) -> Iterator[PriceRow]:
    """Yield each list price with each discount that applies to it, for the time that both are
    valid.

    The results keep the id of the list price, so that a cost can refer to it, and its relative
    rank.

    Raises:
        ValueError: a percentage that isn't between 0 and 100.
    """
    for discount in discounts:
        if not 0 < discount.percent < 100:
            raise ValueError(f"discount of {discount.percent} %: it must be between 0 and 100")
        for row in rows:
            if row.is_list and discount.is_of(row.key):
                yield from _less(row, discount)


def _less(row: PriceRow, discount: Discount) -> Iterator[PriceRow]:
    start = max(row.valid_from, discount.valid_from)
    ends = [end for end in (row.valid_to, discount.valid_to) if end is not None]
    end = min(ends, default=None)
    if end is not None and end <= start:
        return
    yield replace(
        row,
        usd_per_hour=row.usd_per_hour * (100 - discount.percent) / 100,
        valid_from=start,
        valid_to=end,
        source=f"{row.source}, less {discount.percent.normalize():f} %",
        precedence=row.precedence + discount.precedence,
    )
