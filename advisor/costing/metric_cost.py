"""The cost until a metric reached a value, which is the fairest comparison of two trainings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from advisor.money import rounded_usd
from rules.metric_direction import less_is_better

DirectionOf = Callable[[str], bool | None]
"""A metric's name -> whether less is better; None: unknown."""
Progress = Sequence[Sequence[float]]
"""(seconds since the start of the run, value) at each new best value."""
MOST_POINTS = 100


@dataclass(frozen=True)
class MetricCost:
    """The cost until `name` first reached `target` or better; None: no price."""

    name: str
    target: float
    is_less_better: bool
    a_seconds: float
    b_seconds: float
    a_usd: Decimal | None
    b_usd: Decimal | None

    @property
    def goal(self) -> str:
        return f"{self.name} {'≤' if self.is_less_better else '≥'} {self.target:.4g}"


@dataclass(frozen=True)
class BestValue:
    """The best value of a metric, and the run's cost until then."""

    name: str
    value: float
    seconds: float
    usd: Decimal | None


@dataclass(frozen=True)
class MetricsAndCost:
    """A run's metrics over time, and its cost."""

    progress: Mapping[str, Progress]
    cost_usd: Decimal | None
    duration_seconds: float | None


def metric_costs(
    a: MetricsAndCost, b: MetricsAndCost, direction: DirectionOf = less_is_better
) -> Iterator[MetricCost]:
    """Yield for each common metric with a known direction the cost until the best value that both
    runs reached. Progress that was recorded for the other direction is left out.
    """
    for name in sorted({*a.progress} & {*b.progress}):
        is_less_better = direction(name)
        both = [a.progress[name], b.progress[name]]
        if is_less_better is None or not all(_improves(p, is_less_better) for p in both):
            continue
        best = [points[-1][1] for points in both]
        target = max(best) if is_less_better else min(best)
        seconds = [_first(points, target, is_less_better) for points in both]
        usd = _usd(a, seconds[0]), _usd(b, seconds[1])
        yield MetricCost(name, target, is_less_better, seconds[0], seconds[1], *usd)


def best_values(run: MetricsAndCost) -> Iterator[BestValue]:
    """Yield for each metric with a known direction the cost until its best value."""
    for name in sorted(run.progress):
        if points := run.progress[name]:
            seconds, value = points[-1]
            yield BestValue(name, value, seconds, _usd(run, seconds))


def improvements(
    name: str, points: Iterable[tuple[float, float]], direction: DirectionOf = less_is_better
) -> list[list[float]]:
    """Return the new best values of a metric in order of time, at most `MOST_POINTS` including the
    first and the last; empty if the direction is unknown.
    """
    is_less_better = direction(name)
    if is_less_better is None:
        return []
    bests: list[list[float]] = []
    for seconds, value in sorted(points):
        if math.isfinite(value) and (
            not bests or (value < bests[-1][1] if is_less_better else value > bests[-1][1])
        ):
            bests.append([seconds, value])
    if len(bests) <= MOST_POINTS:
        return bests
    step = (len(bests) - 1) / (MOST_POINTS - 1)
    return [bests[round(n * step)] for n in range(MOST_POINTS)]


def _improves(progress: Progress, is_less_better: bool) -> bool:
    """Return whether each new best value is better than the one before."""
    values = [value for _, value in progress]
    return bool(values) and values == sorted(values, reverse=is_less_better)


def _first(progress: Progress, target: float, is_less_better: bool) -> float:
    return next(
        time for time, value in progress if (value <= target if is_less_better else value >= target)
    )


def _usd(run: MetricsAndCost, seconds: float) -> Decimal | None:
    if run.cost_usd is None or not run.duration_seconds:
        return None
    share = min(Fraction(str(seconds)) / Fraction(str(run.duration_seconds)), Fraction(1))
    return rounded_usd(Fraction(run.cost_usd) * share)
