"""Finds where a loop has reached its level. The agent's `trimtab.throughput` has the same rule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

COMPARED_STEPS = 10
FIRST_STEPS, EVERY_STEPS = 5, 5
"""The first steps, which are never compared, and the steps from one comparison to the next."""
LEVEL_TOLERANCE = 0.1


def warmup_steps(seconds: NDArray[np.float64], at_most: int) -> int:
    """Return how many of the first steps are warm-up.

    It is over after ten steps whose median is within 10 % of that of the ten after them, and after
    `at_most` steps in any case.
    """
    for last in range(FIRST_STEPS + COMPARED_STEPS, at_most, EVERY_STEPS):
        after = seconds[last : last + COMPARED_STEPS]
        if len(after) < COMPARED_STEPS:
            break
        level = float(np.median(after))
        before = float(np.median(seconds[last - COMPARED_STEPS : last]))
        if abs(before - level) <= LEVEL_TOLERANCE * level:
            return last
    return at_most
