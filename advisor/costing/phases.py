"""A run's cost split by phase, in parts that sum to it exactly."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import TypeVar

Name = TypeVar("Name")
_NANO_USD = Decimal(1).scaleb(-9)
OTHER_TIME = "other"


def usd_by_phase(
    total_usd: Decimal, phase_seconds: Mapping[str, float], duration_seconds: float
) -> dict[str, Decimal]:
    """What each phase cost, in whole nano-USD; the parts sum exactly to the whole.

    A run holds its machines all the time, so a phase costs its share of the time. Time in no phase
    is `other`.
    """
    seconds = {name: Fraction(str(s)) for name, s in phase_seconds.items() if s > 0}
    rest = Fraction(str(duration_seconds)) - sum(seconds.values(), Fraction(0))
    if rest > Fraction(1, 1000):
        seconds[OTHER_TIME] = rest
    return split_usd(total_usd, seconds)


def split_usd(total_usd: Decimal, weights: Mapping[Name, Fraction | int]) -> dict[Name, Decimal]:
    """A cost in parts as large as their weights, in whole nano-USD; they sum exactly to it.

    The running total is rounded, half up, never a part. Nothing where no weight is above 0.
    """
    whole = sum(weights.values(), Fraction(0))
    if not whole:
        return {}
    parts: dict[Name, Decimal] = {}
    passed, written = Fraction(0), Decimal(0)
    for name, weight in weights.items():
        passed += weight
        so_far = _rounded(Fraction(total_usd) * passed / whole)
        parts[name] = so_far - written
        written = so_far
    return parts


def _rounded(usd: Fraction) -> Decimal:
    exact = Decimal(usd.numerator) / Decimal(usd.denominator)
    return exact.quantize(_NANO_USD, rounding=ROUND_HALF_UP)
