"""The interval of a throughput, by block bootstrap."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 500
LOW, HIGH = 0.1, 0.9
"""The bounds of an 80 % interval."""


@dataclass(frozen=True)
class Rate:
    """Work per second with an 80 % interval; `rel_sd` is its relative standard deviation."""

    low: float
    value: float
    high: float
    rel_sd: float

    def times(self, factor: float) -> Rate:
        return Rate(self.low * factor, self.value * factor, self.high * factor, self.rel_sd)


def rate(work: NDArray[np.float64], seconds: NDArray[np.float64]) -> Rate:
    """Return the rate of stretches of a loop, in their order: all work over all seconds.

    Circular block bootstrap (Politis and Romano 1992) with blocks of n^(1/2) neighbours, because a
    slow step rarely comes alone. The same stretches give the same interval.
    """
    count = len(seconds)
    block = max(1, round(math.sqrt(count)))
    drawn = np.random.default_rng(0).integers(count, size=(RESAMPLES, math.ceil(count / block)))
    sums = [_around(values, block)[drawn].sum(axis=1) for values in (work, seconds)]
    rates = sums[0] / sums[1]
    value = float(work.sum() / seconds.sum())
    low, high = (float(bound) for bound in np.quantile(rates, (LOW, HIGH)))
    return Rate(min(low, value), value, max(high, value), float(rates.std() / value))


def _around(values: NDArray[np.float64], block: int) -> NDArray[np.float64]:
    """Return the sum of the block that begins at each value; the last ones go on at the
    beginning.
    """
    total = np.concatenate([[0.0], np.cumsum(np.concatenate([values, values[: block - 1]]))])
    return np.asarray(total[block:] - total[:-block])
