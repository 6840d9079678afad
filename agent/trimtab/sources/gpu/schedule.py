"""Schedules the driver's queries: each as often as it is needed and its price allows.

Queries differ by a factor of a hundred in what they take, and drivers by another of ten. So each
query is measured wherever it runs, and those of a GPU stay within a budget: the most expensive
become rarer until the sum fits. A query that would lose something if it became too rare is left
out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from trimtab.sources.procfile import Reading

BUDGET = 0.001
"""CPU seconds a second for the queries to one GPU."""
_MEASURED_READS = 4
"""The reads at which everything is asked at first. The cheapest answer counts, without the first:
the driver may load what it needs with the second, too."""
_PLANNED_AGAIN_SECONDS = 60.0
_RARER = 1.25
_RAREST_SECONDS = 600.0
_MOST_CHARACTERS = 400
_LATE_SECONDS = 10.0
"""The latest time of an answer: later ones find the segment sealed to which they belong."""
_COMFORTABLY_RARER = 4.0
_LARGEST_SHARE = 0.5
"""The largest share of the budget; a query that can't become rarer and takes more is left out."""
_WEIGHT, _TICK_WEIGHT = 0.25, 0.05
"""The weights of a new measurement, beside those before it: of a price, of the time between two
reads."""


@dataclass(eq=False)
class Query:
    """One question to the driver. What it answers holds until the next answer."""

    name: str
    """The series that it answers, as people are told if it becomes rare."""
    ask: Callable[[], Reading]
    every_seconds: float = 0.0
    """The pause after which the answer is needed again; 0 for each read."""
    most_seconds: float = math.inf
    """The longest pause after which it still answers everything since the last time."""
    is_in_arrears: bool = False
    """True if it answers for the time since its last answer."""
    planned_seconds: float = field(init=False)
    due: float = 0.0
    answered_ns: int = 0
    known: Reading = field(default_factory=dict)
    price_seconds: float = 0.0
    """CPU seconds of one answer, as measured."""
    asked: int = 0

    def __post_init__(self) -> None:
        self.planned_seconds = self.every_seconds

    def answer(self, now: float) -> None:
        """Ask, and measure what that takes. Raises NvmlError."""
        is_on_time = abs(now - self.due) <= self.planned_seconds / 2
        self.due = (self.due if is_on_time else now) + self.planned_seconds
        began = time.thread_time()
        self.known = {}
        try:
            self.known = self.ask()
        finally:
            self.answered_ns = time.monotonic_ns()
            self._count(time.thread_time() - began)

    def _count(self, taken_seconds: float) -> None:
        self.asked += 1
        if self.asked <= 2:
            self.price_seconds = taken_seconds
        elif self.asked <= _MEASURED_READS:
            self.price_seconds = min(self.price_seconds, taken_seconds)
        else:
            self.price_seconds += _WEIGHT * (taken_seconds - self.price_seconds)

    def load(self, tick_seconds: float) -> float:
        """Return the CPU seconds a second that it takes as planned."""
        return self.price_seconds / max(self.planned_seconds, tick_seconds)


class Schedule:
    """The queries to one GPU, and when each is due."""

    def __init__(self, queries: list[Query], tell: Callable[[dict[str, Any]], None]) -> None:
        """Plan the queries. `tell` is called when something new becomes rarer than it is needed."""
        self.queries = queries
        self._tell = tell
        self._told: set[str] = set()
        self._reads = 0
        self._read_at = self._planned_at = 0.0
        self._tick_seconds = 0.5

    def due_queries(self, now: float, settles: bool = False) -> list[Query]:
        """Return the queries to ask at this read; all of them if it settles."""
        if self._reads:
            self._tick_seconds += _TICK_WEIGHT * (now - self._read_at - self._tick_seconds)
        self._reads, self._read_at = self._reads + 1, now
        if self._reads <= _MEASURED_READS:
            return list(self.queries)
        if self._planned_at == 0.0 or now - self._planned_at >= _PLANNED_AGAIN_SECONDS:
            self._planned_at = now
            self.plan()
        half = self._tick_seconds / 2
        return [
            query
            for query in self.queries
            if not math.isinf(query.planned_seconds) and (settles or query.due - half <= now)
        ]

    def plan(self) -> None:
        """Fit the queries into the budget, and tell what became rarer."""
        plan(self.queries, self._tick_seconds)
        rarer = {query.name: query for query in self.queries if self._is_rarer(query)}
        if rarer.keys() - self._told:
            self._told |= rarer.keys()
            words = ", ".join(f"{name} {_pause_words(query)}" for name, query in rarer.items())
            self._tell({"rarer": words[:_MOST_CHARACTERS], "cpu_ms_a_second": self._load_ms()})

    def _is_rarer(self, query: Query) -> bool:
        return query.planned_seconds > max(query.every_seconds, self._tick_seconds)

    def _load_ms(self) -> float:
        return round(1000 * sum(query.load(self._tick_seconds) for query in self.queries), 2)


def plan(queries: list[Query], tick_seconds: float) -> None:
    """Set how often each query is asked, so that all together stay within the budget.

    Queries of each read give way last.
    """
    for query in queries:
        is_too_dear = query.price_seconds / query.most_seconds > _LARGEST_SHARE * BUDGET
        query.planned_seconds = math.inf if is_too_dear else query.every_seconds
    for most_seconds in (_comfortable_seconds, _rarest_seconds):
        while sum(query.load(tick_seconds) for query in queries) > BUDGET:
            flexible = [q for q in queries if _rarer(q, tick_seconds) <= most_seconds(q)]
            if not flexible:
                break
            dearest = max(flexible, key=lambda query: query.load(tick_seconds))
            dearest.planned_seconds = _rarer(dearest, tick_seconds)


def _rarer(query: Query, tick_seconds: float) -> float:
    return max(query.planned_seconds, tick_seconds) * _RARER


def _comfortable_seconds(query: Query) -> float:
    """Return a pause that costs resolution only; 0 if there is none."""
    longest = _LATE_SECONDS if query.is_in_arrears else _COMFORTABLY_RARER * query.every_seconds
    return min(longest if query.every_seconds else 0.0, query.most_seconds)


def _rarest_seconds(query: Query) -> float:
    return min(query.most_seconds, _RAREST_SECONDS)


def _pause_words(query: Query) -> str:
    if math.isinf(query.planned_seconds):
        return "not at all"
    return f"every {query.planned_seconds:.1f} s"
