"""The part of a cost that belongs to the time before a moment.

Costs are kept per UTC day, but months follow a workspace's time zone, so a month can begin within a
UTC day. Both parts of a split cost add up to it exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from advisor.costing.cost import Interval, merged
from advisor.money import rounded_usd
from advisor.pricing.price import PriceRow

_MICROSECOND = timedelta(microseconds=1)


def usd_before(
    usd: Decimal, intervals: Iterable[Interval], prices: Sequence[PriceRow], moment: datetime
) -> Decimal:
    """In whole nano-USD, from 0 to `usd`. Never decreases for a later moment.

    Args:
        intervals: when the machine was held, within the time that `usd` paid for.
        prices: the prices of that time. Each second is weighted by its price.
    """
    held = merged(intervals)
    before = [(start, min(end, moment)) for start, end in held if start < moment]
    weighing = prices if _weight(held, prices) else ()
    whole = _weight(held, weighing)
    if not whole:
        return usd if before else Decimal(0)
    return rounded_usd(Fraction(usd) * _weight(before, weighing) / whole)


def _weight(held: Iterable[Interval], prices: Sequence[PriceRow]) -> Fraction:
    """The time, weighted by price if the price changed meanwhile."""
    spans = list(held)
    if len(prices) < 2:
        return _microseconds(spans)
    return sum((_at(row, spans) for row in prices), Fraction(0))


def _at(row: PriceRow, spans: Iterable[Interval]) -> Fraction:
    """The time for which each price was valid."""
    cut = (
        (max(start, row.valid_from), end if row.valid_to is None else min(end, row.valid_to))
        for start, end in spans
    )
    return Fraction(row.usd_per_hour) * _microseconds(each for each in cut if each[0] < each[1])


def _microseconds(spans: Iterable[Interval]) -> Fraction:
    return Fraction(sum((end - start) // _MICROSECOND for start, end in spans))
