"""A run's cost split by phase, in parts that add up to it exactly."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction

from advisor.money import split_usd

OTHER_TIME = "other"


def usd_by_phase(
    total_usd: Decimal, phase_seconds: Mapping[str, float], duration_seconds: float
) -> dict[str, Decimal]:
    """Return the cost of each phase in whole nano-USD. The parts add up exactly to the whole.

    A run holds its machines all the time, so a phase costs its share of the time. Time in no phase
    is `other`.
    """
    seconds = {name: Fraction(str(s)) for name, s in phase_seconds.items() if s > 0}
    rest = Fraction(str(duration_seconds)) - sum(seconds.values())
    if rest > Fraction(1, 1000):
        seconds[OTHER_TIME] = rest
    return split_usd(total_usd, seconds)
