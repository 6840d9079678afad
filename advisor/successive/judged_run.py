"""A run as it is judged among the runs of its job: what it told, and the verdict on it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

BASELINE, CAVEAT, LEVEL = "baseline", "caveat", "level"
BETTER, WORSE, SAME = "better", "worse", "same"
OK, SUSPECTED, CONFIRMED, CLEARED, OPEN = "ok", "suspected", "confirmed", "cleared", "open"


@dataclass(frozen=True)
class Observation:
    """A run's machine time per unit of work, above 0, in the same unit for all runs."""

    number: int
    value: float
    at: datetime = datetime(2000, 1, 1, tzinfo=UTC)
    machine: str = ""
    """The machine on which it ran; empty if unknown."""
    is_pinned: bool = False
    """True if it is pinned. If there are pinned runs, only these make up the baseline."""
    is_accepted: bool = False
    """A person accepted the regression that was open at this run."""


@dataclass(frozen=True)
class Regression:
    """A confirmed change for the worse that is not over. `change` is the level's, as a ratio minus
    1; `reference` are the runs that it is compared with."""

    since: int
    change: float
    reference: tuple[int, ...]


@dataclass(frozen=True)
class JudgedRun:
    """The verdict on a run. Values are in the given unit (not logs).

    `low`, `high`: the expected range; None on the first rungs. `change` is the ratio to the
    baseline minus 1. `detects`: the smallest detectable change, as a ratio minus 1. `since`: the
    first run of the new level, if the level has changed. `regression` is the one that is open
    after this run, `ended` the one that this run ended.
    """

    number: int
    rung: str
    status: str
    direction: str
    baseline: tuple[int, ...] = ()
    """The runs that it is compared with."""
    change: float | None = None
    expected: float | None = None
    low: float | None = None
    high: float | None = None
    detects: float | None = None
    since: int | None = None
    is_gradual: bool = False
    """No single run showed the change."""
    is_back: bool = False
    """True if it is at the level that the open regression left."""
    new_machine: str = ""
    """The machine, not seen before, that explains the difference as well as a change would."""
    regression: Regression | None = None
    ended: Regression | None = None
