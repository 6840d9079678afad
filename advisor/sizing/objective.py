"""Chooses the best candidate: by cost, by time, or by both within a limit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from advisor.sizing.candidates import Candidate


class Objective(Protocol):
    """The wish of a person for the next run."""

    def allows(self, candidate: Candidate, now_seconds: float) -> bool: ...
    def rank(self, candidate: Candidate) -> tuple[float, ...]:
        """Return what to sort by: the lowest is best."""
        ...


@dataclass(frozen=True)
class Cheapest:
    """The cheapest machine that takes at most `slower` more time than now, as a share; None:
    however long it takes.
    """

    slower: float | None = 0.1

    def allows(self, candidate: Candidate, now_seconds: float) -> bool:
        if self.slower is None:
            return True
        return candidate.time_mid_seconds <= now_seconds * (1 + self.slower) + 1e-9

    def rank(self, candidate: Candidate) -> tuple[float, ...]:
        return _cost(candidate), candidate.time_mid_seconds


@dataclass(frozen=True)
class Fastest:
    """The fastest machine for at most `under_usd` a run, also at the adverse end."""

    under_usd: Decimal

    def allows(self, candidate: Candidate, now_seconds: float) -> bool:
        return candidate.cost_high_usd is not None and candidate.cost_high_usd <= self.under_usd

    def rank(self, candidate: Candidate) -> tuple[float, ...]:
        return candidate.time_mid_seconds, _cost(candidate)


@dataclass(frozen=True)
class Deadline:
    """The cheapest that is done within `seconds`, also at the adverse end."""

    seconds: float

    def allows(self, candidate: Candidate, now_seconds: float) -> bool:
        return candidate.time_high_seconds <= self.seconds

    def rank(self, candidate: Candidate) -> tuple[float, ...]:
        return _cost(candidate), candidate.time_mid_seconds


def choose_best(
    objective: Objective, table: Iterable[Candidate], now_seconds: float
) -> Candidate | None:
    """Return the best of those that fit and have a price; None if the objective allows none."""
    allowed = [
        each
        for each in table
        if not each.rejected_because
        and each.cost_mid_usd is not None
        and objective.allows(each, now_seconds)
    ]
    return min(allowed, key=objective.rank, default=None)


def pareto(table: Iterable[Candidate]) -> list[Candidate]:
    """Return those than which none is both faster and cheaper, the fastest first."""
    known = [each for each in table if not each.rejected_because and each.cost_mid_usd is not None]
    front: list[Candidate] = []
    for each in sorted(known, key=lambda c: (c.time_mid_seconds, _cost(c), c.instance_type)):
        if not front or _cost(each) < _cost(front[-1]):
            front.append(each)
    return front


def _cost(candidate: Candidate) -> float:
    return float("inf") if candidate.cost_mid_usd is None else float(candidate.cost_mid_usd)
