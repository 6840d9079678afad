"""Spot machines: how long a run takes with interruptions, and from which discount on they pay.

Formulas of Daly (2006): the best time between checkpoints, and the expected time of a run whose
interruptions are independent, at a mean time between them. Seconds everywhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rules import checkpoints

RESTART_SECONDS = 300.0
"""The time to get a machine, load and warm up again (ours)."""


@dataclass(frozen=True)
class Interruptions:
    """The interruptions of a whole run: of several nodes, the one that is interrupted first stops
    all of them.
    """

    mean_seconds: float
    """The mean time between two interruptions of the run."""
    checkpoint_seconds: float
    """The time for which saving one checkpoint stops the training."""
    restart_seconds: float = RESTART_SECONDS

    @classmethod
    def of_nodes(
        cls, mean_seconds_of_a_node: float, node_count: int, checkpoint_seconds: float
    ) -> Interruptions:
        return cls(mean_seconds_of_a_node / node_count, checkpoint_seconds)


def best_interval_seconds(expected: Interruptions) -> float:
    """Return the work between two checkpoints that costs least time."""
    return checkpoints.best_interval_seconds(expected.checkpoint_seconds, expected.mean_seconds)


def expected_seconds(work_seconds: float, interval_seconds: float, of: Interruptions) -> float:
    """Return the expected duration of a run that would take `work_seconds` without checkpoints.

    Infinite if an interval is so long that it hardly ever ends.
    """
    cost, mean = of.checkpoint_seconds, of.mean_seconds
    interval = min(interval_seconds, work_seconds)
    exponent = (interval + cost) / mean
    if exponent > 100 or of.restart_seconds / mean > 100:
        return math.inf
    each = mean * math.exp(of.restart_seconds / mean) * math.expm1(exponent)
    return each * work_seconds / interval


def slowdown(work_seconds: float, of: Interruptions) -> float:
    """Return the expected time over the work, at the best interval; at least 1."""
    seconds = expected_seconds(work_seconds, best_interval_seconds(of), of)
    return max(seconds / work_seconds, 1.0)


def break_even_discount(work_seconds: float, of: Interruptions) -> float:
    """Return the discount, 0 to 1, below which spot costs more than a run that is never
    interrupted.
    """
    return 1 - 1 / slowdown(work_seconds, of)
