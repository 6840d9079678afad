"""Estimates how often machines are interrupted, by what the workspace has seen of its own.

Interruptions are taken to come independently at a constant rate an hour (a Poisson process), so
that a Gamma prior stays a Gamma: with `a` interruptions in `b` hours it becomes Gamma(a + n, b + T)
after n interruptions in T hours (Gelman et al., Bayesian Data Analysis, 3rd edition, 2.6). The
prior is one interruption in as many hours as are assumed without evidence. The interval is the 80 %
of all others here, by the approximation of Wilson and Hilferty (1931).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

FEWEST, LEAST_HOURS = 3, 72.0
"""Interruptions or node-hours from which on a kind of machine tells its own rate (ours); with less,
the next larger group does."""
_Z_80 = 1.2816


@dataclass(frozen=True)
class SeenInterruptions:
    """The interruptions that were seen of machines of one type in one region."""

    provider: str
    region: str
    instance_type: str
    interruptions: int
    hours: float
    """The hours for which nodes were held."""


@dataclass(frozen=True)
class InterruptionRate:
    """The hours between two interruptions of one node."""

    worst_hours: float
    hours: float
    best_hours: float
    interruptions: int
    seen_hours: float
    of: str
    """The machines that tell it, in words."""

    @property
    def words(self) -> str:
        times = "once" if self.interruptions == 1 else f"{self.interruptions} times"
        return (
            f"In this workspace, {self.of} were interrupted {times} in {self.seen_hours:,.0f} "
            f"node-hours: every {self.hours:,.3g} h (8 of 10: {self.worst_hours:,.3g} to "
            f"{self.best_hours:,.3g} h)."
        )


def interruption_rate(
    seen: Iterable[SeenInterruptions], like: SeenInterruptions, assumed_hours: float
) -> InterruptionRate | None:
    """Return the rate of the smallest group that tells enough: machines of the type in the region,
    of the region, of the provider, or all.

    Args:
        like: the machine asked for; its counts don't matter.
        assumed_hours: the time between two interruptions, where nothing is known.

    Returns:
        The rate, or None if all of them tell too little.
    """
    rows = list(seen)
    for words, belongs in _groups(like):
        group = [row for row in rows if belongs(row)]
        count, hours = sum(row.interruptions for row in group), sum(row.hours for row in group)
        if count >= FEWEST or hours >= LEAST_HOURS:
            return _rate(count, hours, assumed_hours, words)
    return None


def _groups(like: SeenInterruptions) -> Sequence[tuple[str, Callable[[SeenInterruptions], bool]]]:
    place = like.provider, like.region
    return (
        (
            f"{like.instance_type} in {like.region or 'no region'}",
            lambda row: (
                (row.provider, row.region) == place and row.instance_type == like.instance_type
            ),
        ),
        (
            f"all machines of this kind in {like.region or 'no region'}",
            lambda row: (row.provider, row.region) == place,
        ),
        (
            f"all machines of this kind at {like.provider or 'no provider'}",
            lambda row: row.provider == like.provider,
        ),
        ("all machines of this kind", lambda row: True),
    )


def _rate(count: int, hours: float, assumed_hours: float, words: str) -> InterruptionRate:
    shape, whole = 1.0 + count, assumed_hours + hours
    return InterruptionRate(
        worst_hours=whole / _gamma_quantile(shape, _Z_80),
        hours=whole / shape,
        best_hours=whole / _gamma_quantile(shape, -_Z_80),
        interruptions=count,
        seen_hours=hours,
        of=words,
    )


def _gamma_quantile(shape: float, z: float) -> float:
    """Return a quantile of a Gamma of this shape and rate 1; within 7 % for shapes from 1 on."""
    spread = 1 / (9 * shape)
    return shape * (1 - spread + z * math.sqrt(spread)) ** 3
