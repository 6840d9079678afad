"""Electricity of own machines: joules that were measured x the data centre's overhead x a rate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

from advisor.money import exact_usd
from advisor.pricing.price import PriceRow

JOULES_PER_KWH = 3_600_000
_WHOLE = 0.995
"""The share of the time from which on everything counts as measured."""


@dataclass(frozen=True)
class DayEnergy:
    """The energy of a run's GPUs on one node and UTC day.

    Attributes:
        seconds: for how long it was measured, as the mean of the run's GPUs.
    """

    day: date
    joules: int
    seconds: float


@dataclass(frozen=True)
class Electricity:
    """The electricity in a run's cost, of the machines whose own rate has a price for it.

    Attributes:
        usd: None: no power was measured.
        measured_share: of the time that these machines were held, 0..1.
        rates: the rates in words, each once.
    """

    usd: Decimal | None
    joules: int | None
    measured_share: float
    rates: list[str]

    @property
    def words(self) -> str:
        """Return in words what the amount is made of, or why there is none."""
        rates = " and ".join(self.rates)
        if self.joules is None:
            return f"no power of a GPU was measured, so the cost lacks it; {rates}"
        known = f"{Decimal(self.joules) / JOULES_PER_KWH:.4g} kWh of the GPUs"
        if self.measured_share < _WHOLE:
            known += f", measured for {100 * self.measured_share:.0f} % of the time"
        return f"{known}; {rates}; the hosts' power isn't measured"


def usd_of_joules(joules: Fraction | int, rate: PriceRow) -> Fraction:
    """Return the exact price of the energy; 0 if the rate has none for electricity."""
    if rate.usd_per_kwh is None:
        return Fraction(0)
    overhead = Fraction(1 if rate.pue is None else rate.pue)
    return Fraction(joules) / JOULES_PER_KWH * overhead * Fraction(rate.usd_per_kwh)


def rate_words(rate: PriceRow) -> str:
    """Return `$0.20 per kWh, PUE 1.5`; empty if the rate has no price for electricity."""
    if rate.usd_per_kwh is None:
        return ""
    pue = Decimal(1) if rate.pue is None else rate.pue
    return f"${exact_usd(rate.usd_per_kwh)} per kWh, PUE {pue.normalize():f}"


def as_document(energy: Iterable[DayEnergy]) -> dict[str, Any]:
    """Return JSON: day -> joules and measured seconds."""
    return {each.day.isoformat(): [each.joules, each.seconds] for each in energy}


def from_document(document: Mapping[str, Any]) -> tuple[DayEnergy, ...]:
    """Return the energy that `as_document` wrote."""
    return tuple(
        DayEnergy(date.fromisoformat(day), joules, seconds)
        for day, (joules, seconds) in document.items()
    )
