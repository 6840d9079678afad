"""The spread between equal runs of a job: robust, and pooled over all levels of its history.

Values are logarithms, so a spread of 0.02 is 2 %. A few runs tell little about their own spread. So
it begins with a stated prior, which a long history outweighs. Single runs far off hardly move it:
residuals are limited to `LIMIT` spreads (Huber, "Robust Estimation of a Location Parameter", Annals
of Mathematical Statistics 35, 1964).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

LIMIT = 2.5
_CONSISTENCY = 0.9775
"""E[min(z², LIMIT²)] of a standard normal z, so that normal values keep their spread."""
_MOST_ROUNDS, _PRECISION = 50, 1e-3
LEAST_FOR_TREND = 16
_LEAST_SPREAD = 0.004
"""Clocks, prices and the amount of work are not more exact than this."""
OWN_PRIOR_FREEDOM = 4.0
"""The prior's weight where a job's own runs have to show a change."""
_SHRINKING = 16.0
"""Pairs of runs that count as uncorrelated, so that a few runs don't look correlated by chance."""


@dataclass(frozen=True)
class Prior:
    """The spread that is assumed before a job has told its own, and what it weighs, in degrees of
    freedom. `jobs`: how many of the workspace's jobs it was measured on; 0: the usual one."""

    spread: float = 0.02
    freedom: float = 24.0
    jobs: int = 0


@dataclass(frozen=True)
class Noise:
    """`freedom`: degrees of freedom that the runs told. `correlation`: of each run with the one
    before it, 0 to 1."""

    spread: float
    freedom: int
    correlation: float = 0.0

    def margin(self, spreads: float, *counts: int) -> float:
        """Return how far means of so many runs may lie apart: that many times their own spread."""
        return spreads * self.spread * math.sqrt(sum(1 / count for count in counts))

    def own_margin(self, spreads: float, *counts: int) -> float:
        """Return the margin by Student's t, because few runs tell a job's spread roughly."""
        return self.margin(students_t(spreads, self.freedom + OWN_PRIOR_FREEDOM), *counts)

    @property
    def lasting(self) -> float:
        """Return by how much the correlation widens the margin of means of successive runs."""
        return math.sqrt((1 + self.correlation) / (1 - self.correlation))


def students_t(normal: float, freedom: float) -> float:
    """Return Student's t that is exceeded as seldom as this value of a standard normal.

    Abramowitz and Stegun, "Handbook of Mathematical Functions", 1964, 26.7.5, to second order.
    """
    first = (normal**3 + normal) / 4
    second = (5 * normal**5 + 16 * normal**3 + 3 * normal) / 96
    return normal + first / freedom + second / freedom**2


def location(values: Sequence[float], spread: float) -> float:
    """Return the mean, with values far from the median limited."""
    middle = median(values)
    reach = LIMIT * spread
    return fmean(min(max(value, middle - reach), middle + reach) for value in values)


def pool_noise(levels: Iterable[Sequence[float]], prior: Prior) -> Noise:
    """Return the noise of a history: each level's values around its own median."""
    residuals = [_residuals(values) for values in levels if len(values) > 1]
    own_freedom = sum(len(level) - 1 for level in residuals)
    spread = prior.spread
    every = [residual for level in residuals for residual in level]
    for _ in range(_MOST_ROUNDS):
        reach = (LIMIT * spread) ** 2
        squares = sum(min(residual**2, reach) for residual in every) / _CONSISTENCY
        freedom = _weight(prior, squares, own_freedom)
        variance = (freedom * prior.spread**2 + squares) / (freedom + own_freedom)
        before, spread = spread, max(math.sqrt(variance), _LEAST_SPREAD)
        if math.isclose(before, spread, rel_tol=_PRECISION):
            break
    return Noise(spread, own_freedom, _correlation(residuals, LIMIT * spread))


def _weight(prior: Prior, squares: float, own_freedom: int) -> float:
    """Return the prior's weight: less in a history that is clearly noisier."""
    if squares <= own_freedom * prior.spread**2:
        return prior.freedom
    return prior.freedom * own_freedom * prior.spread**2 / squares


def _residuals(values: Sequence[float]) -> list[float]:
    """Return distances to the median, widened because the level's own runs made it; in a long level
    to its trend, so that a drift isn't taken for noise.
    """
    count, fitted = len(values), 1
    if count >= LEAST_FOR_TREND:
        values, fitted = _without_trend(values), 3
    middle, widened = median(values), math.sqrt(count / (count - fitted))
    return [(value - middle) * widened for value in values]


def _without_trend(values: Sequence[float]) -> list[float]:
    """Take out the trend by the medians of the first and last third: single runs weigh little."""
    third = len(values) // 3
    slope = (median(values[-third:]) - median(values[:third])) / (len(values) - third)
    return [value - slope * at for at, value in enumerate(values)]


def _correlation(levels: Sequence[Sequence[float]], reach: float) -> float:
    """Return the correlation at lag one, of limited residuals, shrunk towards 0."""
    limited = [[min(max(r, -reach), reach) for r in level] for level in levels]
    products = sum(a * b for level in limited for a, b in pairwise(level))
    squares = sum(r * r for level in limited for r in level)
    typical = (reach / LIMIT) ** 2
    return min(max(products / (squares + _SHRINKING * typical), 0.0), 0.9)
