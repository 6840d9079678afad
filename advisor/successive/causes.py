"""Figures that changed together with the cost: possible causes, not proof."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

MOST_CAUSES = 4
LEAST_CHANGE = 0.05
LEAST_POINTS = 5.0
SHARES = {
    "data_wait_share": ("data wait", 100.0),
    "gpu_busy_p95_pct": ("GPU busy (p95)", 1.0),
    "cpu_busy_p95_pct": ("CPU busy (p95)", 1.0),
}
"""Figure -> its name, and the factor to percent. These change by percentage points."""
RATIOS = {"step_seconds_p50": "median step time", "memory_p99_bytes": "memory in use (p99)"}


@dataclass(frozen=True)
class RunFigures:
    """A run's seconds of each phase per unit of work, and the figures of its summary."""

    phase_seconds: Mapping[str, float]
    figures: Mapping[str, Any]


@dataclass(frozen=True)
class ChangedFigure:
    """A changed figure. `weight` orders them: a larger one is a more likely cause."""

    what: str
    words: str
    weight: float


def causes(before: Sequence[RunFigures], now: RunFigures) -> list[ChangedFigure]:
    """Return what differs most in `now` from the median of the runs before it, by weight.

    Phases are weighted by their part of the change of time, figures by their change.
    """
    if not before:
        return []
    candidates = [*_phases(before, now), *_shares(before, now), *_ratios(before, now)]
    return sorted(candidates, key=lambda cause: -cause.weight)[:MOST_CAUSES]


def _phases(before: Sequence[RunFigures], now: RunFigures) -> list[ChangedFigure]:
    names = {name for run in (*before, now) for name in run.phase_seconds}
    usual = {name: median(run.phase_seconds.get(name, 0.0) for run in before) for name in names}
    whole = sum(usual.values())
    if whole <= 0:
        return []
    causes = []
    for name in sorted(names):
        share = (now.phase_seconds.get(name, 0.0) - usual[name]) / whole
        if abs(share) >= LEAST_CHANGE / 2:
            longer = "longer" if share > 0 else "less time"
            words = f"{name} took {longer}, by {_pct(100 * share)} % of a run's usual time"
            causes.append(ChangedFigure(f"phase {name}", words, 1 + abs(share)))
    return causes


def _shares(before: Sequence[RunFigures], now: RunFigures) -> list[ChangedFigure]:
    causes = []
    for key, (name, percent) in SHARES.items():
        usual, value = _usual(before, key), _number(now.figures.get(key))
        if usual is None or value is None:
            continue
        points = (value - usual) * percent
        if abs(points) >= LEAST_POINTS:
            verb = "rose" if points > 0 else "fell"
            words = f"{name} {verb} from {usual * percent:.0f} to {value * percent:.0f} %"
            causes.append(ChangedFigure(name, words, abs(points) / 100))
    return causes


def _ratios(before: Sequence[RunFigures], now: RunFigures) -> list[ChangedFigure]:
    causes = []
    for key, name in RATIOS.items():
        usual, value = _usual(before, key), _number(now.figures.get(key))
        if not usual or not value or min(usual, value) <= 0:
            continue
        change = value / usual - 1
        if abs(change) >= LEAST_CHANGE:
            words = f"{name} is {_pct(100 * change)} % {'higher' if change > 0 else 'lower'}"
            causes.append(ChangedFigure(name, words, abs(math.log(value / usual))))
    return causes


def _usual(before: Sequence[RunFigures], key: str) -> float | None:
    known = [n for run in before if (n := _number(run.figures.get(key))) is not None]
    return median(known) if known else None


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _pct(percent: float) -> str:
    return f"{abs(percent):.0f}"
