"""Measures how fast a training loop was: warm-up left out, with an interval by block bootstrap.

The same rules as `advisor/probing/`, without NumPy: the agent says the figures at once.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

COMPARED_STEPS = 10
FIRST_STEPS, EVERY_STEPS = 5, 5
"""The first steps, which are never compared, and the steps from one comparison to the next."""
LEVEL_TOLERANCE = 0.1
RESAMPLES = 500
_LOW, _HIGH = 0.1, 0.9
"""The bounds of an 80 % interval."""


@dataclass(frozen=True)
class Interval:
    """An 80 % interval around the measured value."""

    low: float
    value: float
    high: float


def warmup_steps(seconds: Sequence[float], at_most: int) -> int | None:
    """Return how many of the first steps are warm-up, or None if it isn't over yet.

    It is over after ten steps whose median is within 10 % of that of the ten after them, and after
    `at_most` steps in any case.
    """
    for last in range(FIRST_STEPS + COMPARED_STEPS, at_most, EVERY_STEPS):
        if len(seconds) < last + COMPARED_STEPS:
            return None
        before = median(seconds[last - COMPARED_STEPS : last])
        after = median(seconds[last : last + COMPARED_STEPS])
        if abs(before - after) <= LEVEL_TOLERANCE * after:
            return last
    return at_most if len(seconds) >= at_most else None


def steps_per_second(seconds: Sequence[float]) -> Interval:
    """Return the steps per second of all these steps, in their order.

    The interval resamples blocks of neighbouring steps (circular block bootstrap, blocks of
    n^(1/2)), because a slow step rarely comes alone.
    """
    count, drawn = len(seconds), random.Random(0)  # noqa: S311 - repeatable, not secret
    block = max(1, round(math.sqrt(count)))
    around = [*seconds, *seconds[: block - 1]]
    sums = [sum(around[at : at + block]) for at in range(count)]
    blocks = math.ceil(count / block)
    rates = sorted(blocks * block / sum(drawn.choices(sums, k=blocks)) for _ in range(RESAMPLES))
    low, high = (rates[round(share * (RESAMPLES - 1))] for share in (_LOW, _HIGH))
    value = count / sum(seconds)
    return Interval(min(low, value), value, max(high, value))
