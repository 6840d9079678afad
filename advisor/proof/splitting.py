"""Splits what several changes at once saved, so that no dollar is counted twice.

By LMDI-I, as two runs are compared (`advisor.comparison.attribution`): the terms of price and
number of machines belong to the change of machines. The term of time is divided by the logarithms
of the times that the changes promised. What none promised goes to each in proportion to the
variance of its promise: that is the expectation of normal variables whose sum is known. The parts
add up exactly, and their order doesn't matter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from advisor.comparison.attribution import DURATION, attribute
from advisor.money import rounded_usd
from advisor.proof.baseline import PricedTime

LEAST_SPREAD = 0.02
"""A promise isn't more exact than runs differ."""


@dataclass(frozen=True)
class SplitChange:
    """One of the changes. `time_ratio`: the promised duration over the one before; 1: none was."""

    is_about_machine: bool
    time_ratio: float
    spread: float = LEAST_SPREAD
    """Standard deviation of the promise's logarithm."""

    @property
    def variance(self) -> float:
        return max(self.spread, LEAST_SPREAD) ** 2


UNPROMISED_SPREAD = 0.3
"""The speed of other hardware is off by 20 to 40 %, so nearly all of the time that no fix promised
belongs to a move to machines that no recommendation named."""
UNRECOMMENDED_MOVE = SplitChange(is_about_machine=True, time_ratio=1.0, spread=UNPROMISED_SPREAD)
"""The part of a move that no recommendation named: what it saved is nobody's."""


def split(parts: Sequence[SplitChange], before: PricedTime, after: PricedTime) -> list[Decimal]:
    """Return the saving of each part in USD, signed. They sum to the saving exactly."""
    saved = before.usd - after.usd
    if len(parts) == 1:
        return [saved]
    terms = attribute(before.factors(), after.factors())
    if terms is None:
        return _shared(saved, [1.0] * len(parts))
    of_time = -sum((term.usd for term in terms if term.name == DURATION), Decimal(0))
    timed = _timed(parts, of_time, before, after)
    machines = [float(part.is_about_machine) for part in parts]
    if not any(machines):
        machines = [part.variance for part in parts]
    priced = _shared(saved - of_time, machines)
    return [a + b for a, b in zip(timed, priced, strict=True)]


def _timed(
    parts: Sequence[SplitChange], usd: Decimal, before: PricedTime, after: PricedTime
) -> list[Decimal]:
    """Return the term of time, for each change."""
    clock = [each.machine_seconds / each.node_count for each in (before, after)]
    actual = math.log(clock[1] / clock[0])
    if not actual:
        return [Decimal(0)] * len(parts)
    promised = [math.log(part.time_ratio) for part in parts]
    rest, weights = actual - sum(promised), [part.variance for part in parts]
    total = sum(weights)
    logs = [own + rest * weight / total for own, weight in zip(promised, weights, strict=True)]
    return _whole(usd, [usd * Decimal(str(log / actual)) for log in logs])


def _shared(usd: Decimal, weights: Sequence[float]) -> list[Decimal]:
    total = sum(weights)
    return _whole(usd, [usd * Decimal(str(weight / total)) for weight in weights])


def _whole(usd: Decimal, exact: Sequence[Decimal]) -> list[Decimal]:
    """Return the amounts in nano-USD. The largest takes the rounding difference."""
    rounded = [rounded_usd(each) for each in exact]
    largest = max(range(len(rounded)), key=lambda at: abs(rounded[at]))
    rounded[largest] += usd - sum(rounded, Decimal(0))
    return rounded
