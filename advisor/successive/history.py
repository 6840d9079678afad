"""Judges a job's comparable runs in order; the next run confirms or clears each verdict.

A run outside the expected range is suspected. If the next comparable run is outside on the same
side, both are confirmed and become the new baseline. If not, the suspicion is cleared and that run
isn't part of the baseline. So one outlier raises no alarm, and a lasting new level has its own
baseline from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from advisor.successive.baseline import (
    BETTER,
    CHANGE_POINTS,
    LEAST_FOR_CHANGE_POINTS,
    WORSE,
    BaselineComparison,
    compare_to_baseline,
)
from advisor.successive.change_points import MOST_POINTS, change_points

OK, SUSPECTED, CONFIRMED, CLEARED = "ok", "suspected", "confirmed", "cleared"
MOST_BASELINE = 30
"""The newest runs only, because the conditions of a job change slowly."""


@dataclass(frozen=True)
class Observation:
    """A run's cost per unit of work, at the same price for all runs."""

    number: int
    value: float
    is_pinned: bool = False
    """If there are pinned runs, only these make up the baseline."""


@dataclass(frozen=True)
class JudgedRun:
    """`since`: the number of the first run at the new level, if the level has changed."""

    number: int
    comparison: BaselineComparison
    status: str
    since: int | None = None


def judge_runs(observations: Iterable[Observation]) -> list[JudgedRun]:
    """The verdict on each comparable run, in order; at most the last `MOST_POINTS`."""
    history = _History()
    for observation in list(observations)[-MOST_POINTS:]:
        history.add(observation)
    return history.judged_runs


class _History:
    """The state after each run."""

    def __init__(self) -> None:
        self.judged_runs: list[JudgedRun] = []
        self._level: list[Observation] = []
        self._pinned: list[Observation] = []
        self._suspect: Observation | None = None

    def add(self, run: Observation) -> None:
        baseline = self._pinned or self._level[-MOST_BASELINE:]
        comparison = compare_to_baseline([each.value for each in baseline], run.value)
        if run.is_pinned:
            self._pinned.append(run)
        if comparison.is_significant:
            self._outside(run, comparison)
        else:
            self._inside(run, comparison)

    def _outside(self, run: Observation, comparison: BaselineComparison) -> None:
        suspect, self._suspect = self._suspect, run
        if suspect is None or self._last_direction != comparison.direction:
            self._clear()
            self._judge(run, comparison, SUSPECTED)
            return
        self.judged_runs[-1] = replace(self.judged_runs[-1], status=CONFIRMED, since=suspect.number)
        self._judge(run, comparison, CONFIRMED, suspect.number)
        self._level, self._suspect = [suspect, run], None

    def _inside(self, run: Observation, comparison: BaselineComparison) -> None:
        self._clear()
        self._suspect = None
        self._level.append(run)
        since = self._gradual_change()
        if since is None:
            self._judge(run, comparison, OK)
            return
        before = [each for each in self._level if each.number < since]
        self._level = [each for each in self._level if each.number >= since]
        self._judge(run, _compare_levels(before, self._level), CONFIRMED, since)

    def _judge(
        self,
        run: Observation,
        comparison: BaselineComparison,
        status: str,
        since: int | None = None,
    ) -> None:
        self.judged_runs.append(JudgedRun(run.number, comparison, status, since))

    @property
    def _last_direction(self) -> str:
        return self.judged_runs[-1].comparison.direction

    def _clear(self) -> None:
        if self.judged_runs and self.judged_runs[-1].status == SUSPECTED:
            self.judged_runs[-1] = replace(self.judged_runs[-1], status=CLEARED)

    def _gradual_change(self) -> int | None:
        """The first run of a new level, if no single run differed enough to show it."""
        if self._pinned or len(self._level) <= LEAST_FOR_CHANGE_POINTS:
            return None
        points = change_points([each.value for each in self._level])
        return self._level[points[-1]].number if points else None


def _compare_levels(
    before: Sequence[Observation], after: Sequence[Observation]
) -> BaselineComparison:
    """The new level as a whole compared with the one before it."""
    median = sorted(each.value for each in after)[len(after) // 2]
    comparison = compare_to_baseline([each.value for each in before][-MOST_BASELINE:], median)
    direction = WORSE if (comparison.change or 0) > 0 else BETTER
    return replace(comparison, rung=CHANGE_POINTS, direction=direction)
