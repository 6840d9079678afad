"""Judges a job's comparable runs in order, as a sequence of levels.

A level is a time in which runs of the job took the same machine time per unit of work. A run that
is outside of what its level lets expect is suspected; the next run confirms or clears it. A
confirmed change begins a new level. What is confirmed as worse stays open until a later level is
back, or a person accepts it: a lasting regression never becomes the measure of itself.

| runs before | result |
|---|---|
| 0 | the baseline is recorded |
| 1, 2 | the difference, with the caveat that there are too few runs |
| 3 and more | outside of the level's interval, and by at least 5 % |

The replicate is the run, not the step: steps of one run are correlated, and two identical runs
differ "significantly" in their steps nine times out of ten. All calculations use logarithms, so a
change is a ratio.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from advisor.successive import machines
from advisor.successive.gradual import gradual_change
from advisor.successive.judged_run import (
    BASELINE,
    BETTER,
    CAVEAT,
    CLEARED,
    CONFIRMED,
    LEVEL,
    OK,
    OPEN,
    SAME,
    SUSPECTED,
    WORSE,
    JudgedRun,
    Observation,
    Regression,
)
from advisor.successive.noise import Noise, Prior, location, pooled

NOTHING = {"status": OK, "direction": SAME}
"""Told of runs that differ from a single run before them, which is no level."""
LEAST_BEFORE = 3
REACH = 2.65
"""Spreads of a difference. With the gate, at most one run in a hundred is suspected by chance,
either side, as `bench.ladder` shows."""
BACK_REACH = 1.75
"""Of a run that may have left a worse level, because it is where the level before was."""
GATE = math.log1p(0.05)
"""A smaller change isn't worth the time, however certain it is."""
BACK_GATE = GATE / 2
"""A level as near as this is back."""
POWER = 0.84
"""Spreads beyond the margin at which a change is detected in four of five cases."""
MOST_BASELINE = 30
"""The newest runs of a level, because the conditions of a job change slowly."""
MOST_GRADUAL = 120
"""The newest runs of a level that are searched for a small step or a drift."""
MOST_NOISE = 60
"""The newest runs whose noise counts."""
USUAL_CONFIRMING, MOST_CONFIRMING = 2, 4
LASTING_CORRELATION = 0.25
"""Runs as alike as this confirm each other by chance, so that it takes one more."""
ALIKE_REACH = 2.2
"""Of two suspected runs that confirm each other: two outliers are seldom as near."""
SIMILAR = 0.5
"""An earlier outlier of this part of the change makes it likely that this is one, too."""


@dataclass(frozen=True)
class History:
    """The verdicts in order, and what the runs told together."""

    judged_runs: list[JudgedRun]
    noise: Noise
    machine_effects: list[machines.MachineEffect]
    level: tuple[int, ...] = ()
    """The runs that tell the present level."""


@dataclass
class _Level:
    runs: list[Observation] = field(default_factory=list)
    is_resumed: bool = False
    """A later level has taken over its runs."""

    @property
    def baseline(self) -> list[Observation]:
        return [run for run in self.runs if run.is_pinned] or self.runs[-MOST_BASELINE:]


@dataclass(frozen=True)
class _Place:
    """Where a run lies relative to some runs before; logarithms."""

    baseline: tuple[int, ...]
    middle: float
    change: float
    margin: float

    @property
    def direction(self) -> str:
        """An improvement must be as large as a regression, as a ratio."""
        if self.change >= self.margin:
            return WORSE
        return BETTER if self.change <= -self.margin else SAME


def judge_runs(observations: Iterable[Observation], prior: Prior | None = None) -> History:
    """The verdict on each comparable run, in order."""
    state = _State(prior or Prior())
    for observation in observations:
        state.add(observation)
    return History(state.judged, state.noise, state.effects, state.level)


class _State:
    """The history after each run."""

    def __init__(self, prior: Prior) -> None:
        self.prior = prior
        self.noise = pooled([], prior)
        self.judged: list[JudgedRun] = []
        self.effects: list[machines.MachineEffect] = []
        self._shifts: Mapping[str, float] = {}
        self._levels = [_Level()]
        self._suspects: list[Observation] = []
        self._side = SAME
        """The direction of the suspected runs."""
        self._seen: list[Observation] = []
        self._left: _Level | None = None
        """The level that the open regression left."""
        self._worse_since = 0
        self._outliers: dict[int, float] = {}
        """Number of a run that was suspected and cleared -> the change."""

    def add(self, run: Observation) -> None:
        self._measure_noise()
        if self._seen:
            self._judge(run)
        else:
            self._level.runs.append(run)
            self.judged.append(JudgedRun(run.number, BASELINE, OK, SAME))
        self._seen.append(run)
        self._settle(run)

    @property
    def level(self) -> tuple[int, ...]:
        return tuple(run.number for run in self._level.baseline)

    @property
    def _level(self) -> _Level:
        return self._levels[-1]

    def _measure_noise(self) -> None:
        """Twice: machines that differ are found by the noise, and are no part of it then."""
        levels = [level.runs[-MOST_NOISE:] for level in self._levels if not level.is_resumed]
        self.noise = pooled(map(self._values, levels), self.prior)
        if machines.tells([run.machine for run in self._seen]):
            placed = [[(run.machine, math.log(run.value)) for run in runs] for runs in levels]
            self.effects = machines.effects(placed, self.noise)
            self._shifts = machines.shifts(self.effects)
            self.noise = pooled(map(self._values, levels), self.prior)

    def _values(self, runs: Iterable[Observation]) -> list[float]:
        return [math.log(run.value) - self._shifts.get(run.machine, 0.0) for run in runs]

    def _middle(self, runs: Iterable[Observation]) -> float:
        return location(self._values(runs), self.noise.spread)

    def _placed(self, run: Observation, baseline: Sequence[Observation]) -> _Place:
        middle = self._middle(baseline)
        margin = max(self.noise.margin(REACH, len(baseline), 1), GATE)
        numbers = tuple(each.number for each in baseline)
        return _Place(numbers, middle, self._values([run])[0] - middle, margin)

    def _judge(self, run: Observation) -> None:
        place = self._placed(run, self._level.baseline)
        is_back = self._is_back(run, place)
        direction = BETTER if is_back else place.direction
        if direction == SAME:
            self._inside(run)
        else:
            self._outside(run, direction, is_back=is_back)

    def _is_back(self, run: Observation, place: _Place) -> bool:
        """It has left the worse level, and is where the level before was."""
        if self._left is None:
            return False
        before = self._placed(run, self._reference)
        left_by = self.noise.margin(BACK_REACH, len(place.baseline), 1)
        is_nearer = abs(before.change) < abs(place.change)
        return before.direction != WORSE and is_nearer and place.change <= -left_by

    @property
    def _reference(self) -> list[Observation]:
        """The runs that the pages compare with: pinned ones, else those before a regression."""
        pinned = [run for run in self._seen if run.is_pinned]
        return pinned or (self._left or self._level).baseline

    def _inside(self, run: Observation) -> None:
        shown = self._compared(run, OPEN if self._left else OK, self._reference)
        self._clear()
        self._level.runs.append(run)
        first = self._gradual_change()
        if first is None:
            self.judged.append(shown)
            return
        runs = self._level.runs
        at = runs.index(first)
        self._level.runs = runs[:at]
        before = self._level.baseline
        self._begin_level(runs[at:])
        self._show_gradual(run, before)

    def _gradual_change(self) -> Observation | None:
        """The first run of a level that no single run showed."""
        runs = [run for run in self._level.runs if run.number not in self._outliers]
        runs = runs[-MOST_GRADUAL:]
        if any(run.is_pinned for run in runs):
            return None
        times = [run.at for run in runs]
        at = gradual_change(self._values(runs), times, self.noise, GATE)
        return None if at is None else runs[at]

    def _outside(self, run: Observation, direction: str, *, is_back: bool) -> None:
        if self._side != direction:
            self._clear()
        self._side = direction
        new_machine = self._new_machine(run)
        self._suspects.append(run)
        shown = self._compared(run, SUSPECTED, self._reference)
        if shown.rung == LEVEL:
            shown = replace(shown, direction=direction, is_back=is_back, new_machine=new_machine)
        self.judged.append(shown)
        if new_machine and len(self._suspects) >= USUAL_CONFIRMING:
            self._clear()
        elif self._are_confirmed(is_back=is_back):
            self._confirm(is_back=is_back)

    def _new_machine(self, run: Observation) -> str:
        """Its machine, if no run before the suspected ones was on any of theirs, and runs come back
        to machines: the machines explain the difference as well as a change would."""
        before = self._seen[: len(self._seen) - len(self._suspects)]
        known, own = ([each.machine for each in runs] for runs in (before, [*self._suspects, run]))
        is_new = set(own).isdisjoint(known) and machines.tells([*known, *own])
        return run.machine if is_new else ""

    def _are_confirmed(self, *, is_back: bool) -> bool:
        *before, last = self._suspects
        if len(self._suspects) < (USUAL_CONFIRMING if is_back else self._confirming()):
            return False
        margin = max(self.noise.margin(ALIKE_REACH, len(before), 1), GATE)
        are_alike = abs(self._middle(before) - self._values([last])[0]) <= margin
        return are_alike or len(self._suspects) > USUAL_CONFIRMING

    def _confirming(self) -> int:
        """How many runs it takes: more where that many confirm each other by chance."""
        change = self._middle(self._suspects) - self._middle(self._level.baseline)
        recent = [r for r in self._seen[-MOST_BASELINE:] if r.machine not in self._shifts]
        outliers = [self._outliers[run.number] for run in recent if run.number in self._outliers]
        similar = sum(c * change > 0 and abs(c) >= SIMILAR * abs(change) for c in outliers)
        lasting = self.noise.correlation > LASTING_CORRELATION
        return min(USUAL_CONFIRMING + similar + lasting, MOST_CONFIRMING)

    def _confirm(self, *, is_back: bool) -> None:
        runs, self._suspects = self._suspects, []
        since, count = runs[0].number, len(runs)
        if is_back and self._left is not None:
            self._left.is_resumed = True
            runs = [*self._left.runs, *runs]
        is_told = len(self._level.runs) >= USUAL_CONFIRMING
        self._begin_level(runs, since)
        for at in range(len(self.judged) - count, len(self.judged)):
            if self.judged[at].rung == LEVEL:
                told = {"status": CONFIRMED, "since": since} if is_told else NOTHING
                self.judged[at] = replace(self.judged[at], **told)

    def _begin_level(self, runs: list[Observation], since: int | None = None) -> None:
        before, level = self._level, _Level(runs)
        self._levels.append(level)
        is_worse = self._middle(level.baseline) > self._middle(before.baseline)
        if is_worse and self._left is None and len(before.runs) >= USUAL_CONFIRMING:
            self._left, self._worse_since = before, since or runs[0].number

    def _clear(self) -> None:
        """The suspected runs were no change: outliers, or on another machine."""
        if not self._suspects:
            return
        change = self._middle(self._suspects) - self._middle(self._level.baseline)
        self._outliers |= {run.number: change for run in self._suspects}
        for at in range(len(self.judged) - len(self._suspects), len(self.judged)):
            if self.judged[at].rung == LEVEL:
                self.judged[at] = replace(self.judged[at], status=CLEARED)
        self._level.runs += self._suspects
        self._suspects = []

    def _compared(
        self, run: Observation, status: str, baseline: Sequence[Observation]
    ) -> JudgedRun:
        is_early = len(self._seen) < LEAST_BEFORE
        place = self._placed(run, baseline)
        usual = self._placed(run, self._level.baseline)
        least = usual.margin + self.noise.margin(POWER, len(self._level.baseline), 1)
        return JudgedRun(
            number=run.number,
            rung=CAVEAT if is_early else LEVEL,
            status=OK if is_early else status,
            direction=SAME if is_early or status == OK else place.direction,
            baseline=place.baseline,
            change=math.expm1(place.change),
            expected=math.exp(place.middle),
            low=None if is_early else math.exp(place.middle - place.margin),
            high=None if is_early else math.exp(place.middle + place.margin),
            detects=None if is_early else math.expm1(least),
        )

    def _show_gradual(self, run: Observation, before: Sequence[Observation]) -> None:
        """The verdict on the run that showed it, with the change of the level as a whole."""
        change = self._middle(self._level.baseline) - self._middle(before)
        self.judged.append(
            replace(
                self._compared(run, CONFIRMED, before),
                direction=WORSE if change > 0 else BETTER,
                change=math.expm1(change),
                since=self._level.runs[0].number,
                is_gradual=True,
            )
        )

    def _settle(self, run: Observation) -> None:
        """Whether the regression is still open after this run. Judged again each time, because a
        few runs tell the height of a level only roughly."""
        regression = self._regression()
        if regression is None:
            return
        if math.log1p(regression.change) < BACK_GATE:
            self._left = None
            # One that this run itself would have begun was never open.
            if self.judged[-2].regression is not None:
                self.judged[-1] = replace(self.judged[-1], ended=regression)
            return
        self.judged[-1] = replace(self.judged[-1], regression=regression)
        if run.is_accepted:
            self._left = None

    def _regression(self) -> Regression | None:
        if self._left is None:
            return None
        reference = self._reference
        change = self._middle(self._level.baseline) - self._middle(reference)
        numbers = tuple(each.number for each in reference)
        return Regression(self._worse_since, math.expm1(change), numbers)
