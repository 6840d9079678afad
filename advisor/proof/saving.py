"""Realised savings: of each later run, and in sum, with an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from advisor.money import rounded_usd

REACH = 1.71
"""Spreads on either side of a 90 % interval: Student's t with 24 degrees of freedom, as many as
the assumed variation counts for (`advisor.successive.noise`)."""


@dataclass(frozen=True)
class RunSaving:
    """The saving of one run. `common_usd` is the standard error that the runs of one baseline
    share, `own_usd` that of this run alone.
    """

    number: int
    usd: Decimal
    baseline_usd: Decimal
    common_usd: float
    own_usd: float
    predicted_usd: tuple[Decimal, Decimal, Decimal] | None = None
    """The promised saving for this amount of work: low, middle, high; None if there was no price
    then, or the run chose what no recommendation named."""
    is_own_way: bool = False

    @property
    def interval(self) -> tuple[Decimal, Decimal]:
        half = _half(self.common_usd, self.own_usd**2)
        return self.usd - half, self.usd + half


@dataclass(frozen=True)
class RealisedTotal:
    """The sum over runs, signed, with its 90 % interval."""

    usd: Decimal
    low_usd: Decimal
    high_usd: Decimal
    runs: int


def running(savings: Sequence[RunSaving]) -> list[RealisedTotal]:
    """Return the sum after each run: the cumulative sum (CUSUM) of measurement and verification. A
    change that keeps saving rises steadily, one that has stopped is level, and one that costs more
    falls.

    What runs share adds up in the interval, what is their own averages out.
    """
    sums, usd, common, own = [], Decimal(0), 0.0, 0.0
    for count, each in enumerate(savings, start=1):
        usd += each.usd
        common += each.common_usd
        own += each.own_usd**2
        half = _half(common, own)
        sums.append(RealisedTotal(usd, usd - half, usd + half, count))
    return sums


def _half(common_usd: float, own_squares: float) -> Decimal:
    return rounded_usd(Decimal(str(REACH * math.sqrt(common_usd**2 + own_squares))))
