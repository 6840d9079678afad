"""A job's comparable runs in order: a verdict on each, and which of them the next run confirmed.

A run outside of what was expected is suspected. If the next comparable run is outside on the same
side, both are confirmed and are the new baseline; if not, the suspicion is cleared and that run
stays out of the baseline. So one outlier raises no alarm, and a lasting new level is judged by
itself from then on.
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
"""The newest: the world changes slowly under every job."""


@dataclass(frozen=True)
class Observation:
    """One run: its cost per unit of work, at one price for all."""

    number: int
    value: float
    is_pinned: bool = False
    """The baseline is made of pinned runs alone, where there are some."""


@dataclass(frozen=True)
class JudgedRun:
    """`since`: the number of the first run at the new level, where the level has changed."""

    number: int
    comparison: BaselineComparison
    status: str
    since: int | None = None


def judge_runs(observations: Iterable[Observation]) -> list[JudgedRun]:
    """Each comparable run, in order; at most the last `MOST_POINTS`."""
    history = _History()
    for observation in list(observations)[-MOST_POINTS:]:
        history.add(observation)
    return history.judged_runs


class _History:
    """What is known after each run."""

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
        """The first run of a new level that no single run was far enough out to show."""
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
