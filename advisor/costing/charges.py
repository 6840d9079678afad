"""The charges for each second of a node's day, so that the day can be split at any moment.

Costs are kept per node and UTC day, but months follow a workspace's time zone, so a month can begin
within a UTC day. A moment splits a cost as midnight does: the node's running total up to it is
exact, is rounded once, and each part is the difference of two totals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

from advisor.money import rounded_usd

_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS_PER_HOUR = 3600 * 10**6


@dataclass(frozen=True)
class Charge:
    """A time at one price and share."""

    start: datetime
    end: datetime
    usd_per_hour: Fraction
    """The price of this run: the price x its units x its share."""

    def usd_before(self, moment: datetime) -> Fraction:
        held = max(min(moment, self.end) - self.start, timedelta())
        return self.usd_per_hour * (held // _MICROSECOND) / _MICROSECONDS_PER_HOUR

    @property
    def usd(self) -> Fraction:
        return self.usd_before(self.end)


@dataclass(frozen=True)
class DayCharges:
    """All charges of one node on one UTC day."""

    earlier_usd: Fraction
    """The node's exact cost of the days before."""
    charges: tuple[Charge, ...]

    @property
    def total_usd(self) -> Fraction:
        """Return the node's exact cost up to the end of the day."""
        return self.earlier_usd + sum(charge.usd for charge in self.charges)

    @property
    def usd(self) -> Decimal:
        """Return the cost of the day."""
        return rounded_usd(self.total_usd) - rounded_usd(self.earlier_usd)

    def usd_before(self, moment: datetime) -> Decimal:
        """Return the part of `usd` until a moment, from 0 to all. Never decreases for a later
        moment.
        """
        total = self.earlier_usd + sum(each.usd_before(moment) for each in self.charges)
        return rounded_usd(total) - rounded_usd(self.earlier_usd)


def as_document(day: date, paid: DayCharges) -> dict[str, Any]:
    """Return JSON with microseconds since the day's midnight. Fractions are in base 16, because
    Python limits the length of decimal texts.
    """
    midnight = datetime.combine(day, time(), UTC)
    return {
        "earlier_usd": _text(paid.earlier_usd),
        "charges": [
            [
                (each.start - midnight) // _MICROSECOND,
                (each.end - midnight) // _MICROSECOND,
                _text(each.usd_per_hour),
            ]
            for each in paid.charges
        ],
    }


def from_document(day: date, document: Mapping[str, Any]) -> DayCharges:
    """Return the charges that `as_document` wrote."""
    midnight = datetime.combine(day, time(), UTC)
    charges = (
        Charge(midnight + start * _MICROSECOND, midnight + end * _MICROSECOND, _fraction(rate))
        for start, end, rate in document["charges"]
    )
    return DayCharges(_fraction(document["earlier_usd"]), tuple(charges))


def _text(value: Fraction) -> str:
    return f"{value.numerator:x}/{value.denominator:x}"


def _fraction(text: str) -> Fraction:
    numerator, denominator = (int(part, 16) for part in text.split("/"))
    return Fraction(numerator, denominator)
