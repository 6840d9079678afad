"""The steps of one rank in one segment: one by one, or summarised per second if there are many."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass, field
from typing import NamedTuple

from trimtab.wire import StepBlock, StepSummary

EXACT_STEPS = 500
"""The most steps per rank and segment that are sent singly; above this, steps are summarised per
second."""
_SLOWEST = 20


class Step(NamedTuple):
    phase: str
    end_us: int
    """The end since the start of the session."""
    duration_us: int
    data_wait_us: int | None
    samples: int | None
    tokens: int | None = None


@dataclass
class _Second:
    """The steps that ended in one second."""

    count: int = 0
    durations_us: int = 0
    shortest_us: int = 2**62
    longest_us: int = 0
    waits_us: int | None = 0
    samples: int | None = 0
    tokens: int | None = 0
    histogram: dict[int, int] = field(default_factory=dict)
    slowest_us: list[int] = field(default_factory=list)

    def add(self, step: Step) -> None:
        duration = step.duration_us
        self.count += 1
        self.durations_us += duration
        self.shortest_us = min(self.shortest_us, duration)
        self.longest_us = max(self.longest_us, duration)
        self.waits_us = _sum(self.waits_us, step.data_wait_us)
        self.samples = _sum(self.samples, step.samples)
        self.tokens = _sum(self.tokens, step.tokens)
        bucket = math.floor(4 * math.log2(max(1, duration)))
        self.histogram[bucket] = self.histogram.get(bucket, 0) + 1
        keep = heapq.heappush if len(self.slowest_us) < _SLOWEST else heapq.heappushpop
        keep(self.slowest_us, duration)


def _sum(total: int | None, value: int | None) -> int | None:
    """Add, unless one part is unknown: a partial sum would look complete."""
    return None if total is None or value is None else total + value


def _known_column(tokens: list[int | None]) -> list[int | None]:
    return tokens if any(each is not None for each in tokens) else []


class RankSteps:
    """Collects the steps of one rank until the segment is sealed."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._exact: list[Step] = []
        self._seconds: dict[tuple[int, str], _Second] = {}

    def add(self, step: Step) -> None:
        if self._seconds:
            self._sum_up(step)
            return
        self._exact.append(step)
        if len(self._exact) > EXACT_STEPS:
            for early in self._exact:
                self._sum_up(early)
            self._exact = []

    def seal(self, start_us: int) -> tuple[list[StepBlock], list[StepSummary]]:
        """Return the collected steps, in times since `start_us` of the session. Empties the
        collection.
        """
        phases = dict.fromkeys(step.phase for step in self._exact)
        blocks = [self._block(phase, start_us) for phase in phases]
        summaries = [
            self._summary(key, second, start_us) for key, second in sorted(self._seconds.items())
        ]
        self._exact, self._seconds = [], {}
        return blocks, summaries

    def _sum_up(self, step: Step) -> None:
        key = (step.end_us // 1_000_000, step.phase)
        self._seconds.setdefault(key, _Second()).add(step)

    def _block(self, phase: str, start_us: int) -> StepBlock:
        steps = [step for step in self._exact if step.phase == phase]
        return StepBlock(
            rank=self._rank,
            phase=phase,
            start_us=[step.end_us - step.duration_us - start_us for step in steps],
            duration_us=[step.duration_us for step in steps],
            data_wait_us=[step.data_wait_us for step in steps],
            samples=[step.samples for step in steps],
            tokens=_known_column([step.tokens for step in steps]),
        )

    def _summary(self, key: tuple[int, str], second: _Second, start_us: int) -> StepSummary:
        return StepSummary(
            rank=self._rank,
            phase=key[1],
            start_ms=max(0, key[0] * 1000 - start_us // 1000),
            count=second.count,
            duration_sum_us=second.durations_us,
            duration_min_us=second.shortest_us,
            duration_max_us=second.longest_us,
            data_wait_sum_us=second.waits_us,
            samples=second.samples,
            tokens=second.tokens,
            histogram=dict(sorted(second.histogram.items())),
            slowest_us=sorted(second.slowest_us, reverse=True),
        )
