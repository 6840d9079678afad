"""A job's comparable runs in order: a verdict for each, and which of them the next confirmed.

A run outside of what was expected is suspected. If the next comparable run is outside on the same
side, both are confirmed and are the new baseline; if not, the suspicion is cleared and that run
counts no further. So one odd run alarms nobody, and a level that has come to stay is judged by
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
    Verdict,
    verdict,
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
class Judged:
    """`since`: the number of the first run at the new level, where the level has changed."""

    number: int
    verdict: Verdict
    status: str
    since: int | None = None


def judged(observations: Iterable[Observation]) -> list[Judged]:
    """Each comparable run, in order; at most the last `MOST_POINTS`."""
    walk = _Walk()
    for seen in list(observations)[-MOST_POINTS:]:
        walk.take(seen)
    return walk.found


class _Walk:
    """What is known after each run."""

    def __init__(self) -> None:
        self.found: list[Judged] = []
        self._level: list[Observation] = []
        self._pinned: list[Observation] = []
        self._suspect: Observation | None = None

    def take(self, seen: Observation) -> None:
        baseline = self._pinned or self._level[-MOST_BASELINE:]
        held = verdict([each.value for each in baseline], seen.value)
        if seen.is_pinned:
            self._pinned.append(seen)
        if held.is_significant:
            self._outside(seen, held)
        else:
            self._inside(seen, held)

    def _outside(self, seen: Observation, held: Verdict) -> None:
        suspect, self._suspect = self._suspect, seen
        if suspect is None or self.found[-1].verdict.direction != held.direction:
            self._clear()
            self.found.append(Judged(seen.number, held, SUSPECTED))
            return
        self.found[-1] = replace(self.found[-1], status=CONFIRMED, since=suspect.number)
        self.found.append(Judged(seen.number, held, CONFIRMED, suspect.number))
        self._level, self._suspect = [suspect, seen], None

    def _inside(self, seen: Observation, held: Verdict) -> None:
        self._clear()
        self._suspect = None
        self._level.append(seen)
        since = self._crept()
        if since is None:
            self.found.append(Judged(seen.number, held, OK))
            return
        before = [each for each in self._level if each.number < since]
        self._level = [each for each in self._level if each.number >= since]
        self.found.append(Judged(seen.number, _against(before, self._level), CONFIRMED, since))

    def _clear(self) -> None:
        if self.found and self.found[-1].status == SUSPECTED:
            self.found[-1] = replace(self.found[-1], status=CLEARED)

    def _crept(self) -> int | None:
        """The first run of a new level that no single run was far enough out to tell."""
        if self._pinned or len(self._level) <= LEAST_FOR_CHANGE_POINTS:
            return None
        points = change_points([each.value for each in self._level])
        return self._level[points[-1]].number if points else None


def _against(before: Sequence[Observation], after: Sequence[Observation]) -> Verdict:
    """The new level as a whole against the one before it."""
    mean = sorted(each.value for each in after)[len(after) // 2]
    held = verdict([each.value for each in before][-MOST_BASELINE:], mean)
    direction = WORSE if (held.change or 0) > 0 else BETTER
    return replace(held, rung=CHANGE_POINTS, direction=direction)
