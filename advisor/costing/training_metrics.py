"""The cost of a training when a metric reached a value, counted from the training's first run.

Money is spread evenly over the time for which each attempt held its machines, so time without a
machine costs nothing, and neither the division into runs nor the order of arrival has an influence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from advisor.costing.metric_cost import DirectionOf, improvements
from advisor.costing.training import Attempt, added_usd
from advisor.money import rounded_usd


@dataclass(frozen=True)
class NewBest:
    """A new best value of the metric."""

    value: float
    at_us: int
    seconds: float
    """The seconds since the training's first start."""
    usd: Decimal | None
    """The cost of all attempts until then; None without a price."""


@dataclass(frozen=True)
class MetricCurve:
    name: str
    is_less_better: bool
    points: tuple[NewBest, ...]
    """The points in order of time, each better than the one before; never empty."""

    @property
    def best(self) -> NewBest:
        return self.points[-1]

    def first_reaching(self, target: float) -> NewBest | None:
        """Return when it first was this good, or None if it never was."""
        return next((each for each in self.points if self._is_reached(each.value, target)), None)

    def _is_reached(self, value: float, target: float) -> bool:
        return value <= target if self.is_less_better else value >= target


Points = Sequence[tuple[int, float]]
"""(microseconds on the attempts' clock, value)."""


def curves(
    attempts: Sequence[Attempt], told: Mapping[str, Points], direction: DirectionOf
) -> list[MetricCurve]:
    """Return the curves of the metrics whose better direction is known, by name.

    Args:
        told: the values of all runs of the training, in any order.
    """
    began = min((start for attempt in attempts for start, _ in attempt.held_us), default=None)
    found: list[MetricCurve] = []
    for name in sorted(told if began is not None else ()):
        since = began or 0
        bests = improvements(name, [(at - since, value) for at, value in told[name]], direction)
        points = [_reached(attempts, since, round(after), value) for after, value in bests]
        is_less_better = direction(name)
        if points and is_less_better is not None:
            found.append(MetricCurve(name, is_less_better, tuple(points)))
    return found


def usd_until(attempts: Iterable[Attempt], at_us: int) -> Decimal | None:
    """Return what all attempts had cost by then; None if one of them has no price."""
    total = Fraction(0)
    for attempt in attempts:
        share = _held_share(attempt, at_us)
        usd = added_usd(part.usd for part in attempt.parts)
        if usd is None and share:
            return None
        total += share * Fraction(usd or 0)
    return rounded_usd(total)


def _reached(attempts: Sequence[Attempt], began: int, after_us: int, value: float) -> NewBest:
    at = began + after_us
    return NewBest(value, at, after_us / 1e6, usd_until(attempts, at))


def _held_share(attempt: Attempt, at_us: int) -> Fraction:
    """Return the share before then of the time for which it held machines."""
    held = sum(end - start for start, end in attempt.held_us)
    until = sum(max(min(end, at_us) - start, 0) for start, end in attempt.held_us)
    return Fraction(until, held) if held else Fraction(0)
