"""Times of the week at which equal runs take longer: told apart from changes of the job.

A shared disk or network may be busy at weekends or at night. Once two full weeks are there, a
period in which runs take longer than at other times of the same level gets an effect, as a machine
does, by which its runs are adjusted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from advisor.successive.machines import GATE, MachineEffect, effect_on
from advisor.successive.noise import Noise

LEAST_DAYS = 14
LEAST_WEEKS = 2
"""The weeks in which the period had runs."""
LEAST_RUNS = 4
MOST_PERIODS = 3
HOURS = 6


@dataclass(frozen=True)
class Period:
    """A part of the week: its days (Monday is 0), and its hours as a half-open range."""

    name: str
    days: frozenset[int] = frozenset(range(7))
    hours: tuple[int, int] = (0, 24)

    def has(self, at: datetime) -> bool:
        return at.weekday() in self.days and self.hours[0] <= at.hour < self.hours[1]


_DAYS = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")
PERIODS = (
    Period("Saturdays and Sundays", frozenset([5, 6])),
    *(Period(name, frozenset([day])) for day, name in enumerate(_DAYS)),
    *(
        Period(f"days from {hour}:00 to {hour + HOURS}:00", hours=(hour, hour + HOURS))
        for hour in range(0, 24, HOURS)
    ),
)

Timed = tuple[datetime, float]
"""The time at which a run began, in the workspace's time zone, and its value, a logarithm."""


def effects(levels: Iterable[Sequence[Timed]], noise: Noise) -> dict[Period, MachineEffect]:
    """Return the periods that differ beyond the noise, the surest first."""
    timed = [list(level) for level in levels]
    found: dict[Period, MachineEffect] = {}
    known = _known([at for level in timed for at, _ in level])
    while len(found) < MOST_PERIODS:
        candidates = {p: e for p in known if p not in found and (e := _effect(p, timed, noise))}
        if not candidates:
            break
        surest = max(candidates, key=lambda period: _certainty(candidates[period]))
        found[surest] = candidates[surest]
        shift = math.log1p(found[surest].change)
        timed = [[(at, v - shift if surest.has(at) else v) for at, v in level] for level in timed]
    return found


def shift_of(at: datetime, shifts: Mapping[Period, float]) -> float:
    """Return what the logarithm of a run that began then is adjusted by."""
    return sum(shift for period, shift in shifts.items() if period.has(at))


def _known(times: Sequence[datetime]) -> list[Period]:
    """Return the periods that had enough runs; none before two full weeks."""
    if not times or (max(times).date() - min(times).date()).days + 1 < LEAST_DAYS:
        return []
    return [period for period in PERIODS if _is_known(period, times)]


def _is_known(period: Period, times: Sequence[datetime]) -> bool:
    own = [at for at in times if period.has(at)]
    weeks = {at.isocalendar()[:2] for at in own}
    return len(own) >= LEAST_RUNS and len(weeks) >= LEAST_WEEKS


def _effect(
    period: Period, levels: Sequence[Sequence[Timed]], noise: Noise
) -> MachineEffect | None:
    """Return the effect, or None for too few runs, or within the noise."""
    placed = [[(period.name if period.has(at) else "", v) for at, v in level] for level in levels]
    if len(placed) == 1 and not _may_differ(placed[0]):
        return None
    return effect_on(period.name, placed, noise)


def _may_differ(placed: Sequence[tuple[str, float]]) -> bool:
    """Return whether the means are apart at all, which spares most periods the robust means."""
    own, others = [v for name, v in placed if name], [v for name, v in placed if not name]
    return bool(own and others) and abs(fmean(own) - fmean(others)) >= GATE / 2


def _certainty(effect: MachineEffect) -> float:
    """Return its change in units of its margin."""
    change = math.log1p(effect.change)
    return abs(change) / (math.log1p(effect.high) - change)
