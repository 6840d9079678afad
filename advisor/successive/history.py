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

from advisor.successive import machines, periods
from advisor.successive.early import early_change
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
from advisor.successive.modes import spread_of_two
from advisor.successive.noise import Noise, Prior, location, pool_noise

NOTHING = {"status": OK, "direction": SAME}
"""The verdict on runs that differ from a single run before them, which is no level."""
LEAST_BEFORE = 3
REACH = 2.65
"""Spreads of a difference. With the gate, at most one run in a hundred is suspected by chance,
either side, as `bench.ladder` shows."""
BACK_REACH = 1.75
"""The reach of a run that may have left a worse level: less is enough, because it is where the
level before was."""
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
"""The reach of two suspected runs that confirm each other: two outliers are seldom as near."""
CERTAIN_REACH, YOUNG_REACH = 3.6, 3.3
"""The reach of suspected runs together, by what the job's own runs tell of its noise. The prior
weighs little here, so that a noisy job whose first runs were alike isn't taken for a calm one."""
SIMILAR = 0.5
"""An earlier outlier of this part of the change makes it likely that this is one, too."""


@dataclass(frozen=True)
class JudgedHistory:
    """The verdicts in order, and what the runs told together."""

    judged_runs: list[JudgedRun]
    noise: Noise
    machine_effects: list[machines.MachineEffect]
    period_effects: list[machines.MachineEffect] = field(default_factory=list)
    level: tuple[int, ...] = ()
    """The runs that tell the present level."""
    levels: tuple[tuple[int, ...], ...] = ()
    """All runs of each level that was found, the earliest level first."""


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
    """The place of a run relative to some runs before; logarithms."""

    baseline: tuple[int, ...]
    middle: float
    change: float
    margin: float

    @property
    def direction(self) -> str:
        """Return the direction. An improvement must be as large as a regression, as a ratio."""
        if self.change >= self.margin:
            return WORSE
        return BETTER if self.change <= -self.margin else SAME


def judge_runs(observations: Iterable[Observation], prior: Prior | None = None) -> JudgedHistory:
    """Return the verdict on each comparable run, in order."""
    state = _State(prior or Prior())
    for observation in observations:
        state.add(observation)
    return JudgedHistory(
        judged_runs=state.judged,
        noise=state.noise,
        machine_effects=state.effects,
        period_effects=[*state.period_effects.values()],
        level=state.level,
        levels=state.levels,
    )


class _State:
    """The history after each run."""

    def __init__(self, prior: Prior) -> None:
        self.prior = prior
        self.noise = pool_noise([], prior)
        self.judged: list[JudgedRun] = []
        self.effects: list[machines.MachineEffect] = []
        self.period_effects: dict[periods.Period, machines.MachineEffect] = {}
        self._shifts: Mapping[str, float] = {}
        self._period_shifts: Mapping[periods.Period, float] = {}
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
    def levels(self) -> tuple[tuple[int, ...], ...]:
        held = (level.runs for level in self._levels if not level.is_resumed)
        return tuple(tuple(run.number for run in runs) for runs in held)

    @property
    def _level(self) -> _Level:
        return self._levels[-1]

    def _measure_noise(self) -> None:
        """Measure again after each kind of effect: what the noise shows is no part of it then."""
        levels = self._known_levels()
        self._shifts, self._period_shifts = {}, {}
        self.noise = pool_noise(map(self._values, levels), self.prior)
        if machines.tells([run.machine for run in self._seen]):
            placed = [[(run.machine, math.log(run.value)) for run in runs] for runs in levels]
            self.effects = machines.effects(placed, self.noise)
            self._shifts = machines.shifts(self.effects)
            self.noise = pool_noise(map(self._values, levels), self.prior)
        self._measure_periods(levels)
        self._widen_noise()

    def _measure_periods(self, levels: Sequence[Sequence[Observation]]) -> None:
        timed = [
            list(zip((run.at for run in runs), self._values(runs), strict=True)) for runs in levels
        ]
        self.period_effects = periods.effects(timed, self.noise)
        if self.period_effects:
            self._period_shifts = {
                period: math.log1p(effect.change) for period, effect in self.period_effects.items()
            }
            self.noise = pool_noise(map(self._values, levels), self.prior)

    def _widen_noise(self) -> None:
        """Take two modes into the noise if nobody knows the machines: there may be two kinds."""
        if any(run.machine for run in self._seen):
            return
        settled = self._seen[: len(self._seen) - len(self._suspects)]
        spread = spread_of_two(self._values(settled[-MOST_NOISE:]))
        if spread is not None and spread > self.noise.spread:
            self.noise = replace(self.noise, spread=spread)

    def _known_levels(self) -> list[list[Observation]]:
        return [level.runs[-MOST_NOISE:] for level in self._levels if not level.is_resumed]

    def _values(self, runs: Iterable[Observation]) -> list[float]:
        return [math.log(run.value) - self._shift(run) for run in runs]

    def _shift(self, run: Observation) -> float:
        """Return what a run's logarithm owes to its machine and to the time of the week."""
        shift = self._shifts.get(run.machine, 0.0)
        return (
            shift + periods.shift_of(run.at, self._period_shifts) if self._period_shifts else shift
        )

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
        """Return whether it has left the worse level, and is where the level before was."""
        if self._left is None:
            return False
        before = self._placed(run, self._reference)
        left_by = self.noise.margin(BACK_REACH, len(place.baseline), 1)
        is_nearer = abs(before.change) < abs(place.change)
        return before.direction != WORSE and is_nearer and place.change <= -left_by

    @property
    def _reference(self) -> list[Observation]:
        """Return the runs that pages compare with: pinned ones, else those before a regression."""
        pinned = [run for run in self._seen if run.is_pinned]
        return pinned or (self._left or self._level).baseline

    def _inside(self, run: Observation) -> None:
        shown = self._compared(run, OPEN if self._left else OK, self._reference)
        self._clear()
        self._level.runs.append(run)
        if (first := self._early_change()) is not None:
            before = self._split_at(first)
            self.judged.append(self._of_level(run, before))
        elif (first := self._gradual_change()) is not None:
            before = self._split_at(first)
            self.judged.append(replace(self._of_level(run, before), is_gradual=True))
        else:
            self.judged.append(shown)

    def _early_change(self) -> Observation | None:
        """Return the first run of a regression that the runs of a young level show together."""
        runs = self._level.runs
        if any(run.is_pinned for run in runs):
            return None
        others = [self._values(level) for level in self._known_levels()[:-1]]
        at = early_change(self._values(runs), others, self.prior, GATE)
        return None if at is None else runs[at]

    def _gradual_change(self) -> Observation | None:
        """Return the first run of a level that no single run showed."""
        runs = [run for run in self._level.runs if run.number not in self._outliers]
        runs = runs[-MOST_GRADUAL:]
        if any(run.is_pinned for run in runs):
            return None
        times = [run.at for run in runs]
        at = gradual_change(self._values(runs), times, self.noise, GATE)
        return None if at is None else runs[at]

    def _split_at(self, first: Observation) -> list[Observation]:
        """Begin a level with this run of the present one. Returns the baseline before."""
        runs = self._level.runs
        at = runs.index(first)
        self._level.runs = runs[:at]
        before = self._level.baseline
        self._begin_level(runs[at:])
        for run in runs[at:]:
            self._outliers.pop(run.number, None)
        return before

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
        elif direction == WORSE and not new_machine:
            self._confirm_early()

    def _confirm_early(self) -> None:
        """Confirm a regression that the suspected runs show together with runs that were inside."""
        suspects, settled = self._suspects, self._level.runs
        self._level.runs = [*settled, *suspects]
        first = self._early_change()
        if first is None:
            self._level.runs = settled
            return
        self._split_at(first)
        self._suspects = []
        for at in range(len(self.judged) - len(suspects), len(self.judged)):
            is_since = self.judged[at].number >= first.number
            told = {"status": CONFIRMED, "since": first.number} if is_since else {"status": CLEARED}
            self.judged[at] = replace(self.judged[at], **told)

    def _new_machine(self, run: Observation) -> str:
        """Return its machine, if no run before the suspected ones was on any of theirs, and runs
        come back to machines: the machines explain the difference as well as a change would.
        """
        before = self._seen[: len(self._seen) - len(self._suspects)]
        known, own = ([each.machine for each in runs] for runs in (before, [*self._suspects, run]))
        is_new = set(own).isdisjoint(known) and machines.tells([*known, *own])
        return run.machine if is_new else ""

    def _are_confirmed(self, *, is_back: bool) -> bool:
        *before, last = self._suspects
        if len(self._suspects) < (USUAL_CONFIRMING if is_back else self._confirming()):
            return False
        if not is_back and not self._are_certain():
            return False
        margin = max(self.noise.margin(ALIKE_REACH, len(before), 1), GATE)
        are_alike = abs(self._middle(before) - self._values([last])[0]) <= margin
        return are_alike or len(self._suspects) > USUAL_CONFIRMING

    def _are_certain(self) -> bool:
        """Return whether the suspected runs together are outside, by the noise that the job's own
        runs tell.
        """
        baseline, suspects = self._level.baseline, self._suspects
        change = self._middle(suspects) - self._middle(baseline)
        # What leaves one or two runs isn't reported, and needn't be as certain.
        is_young = len(self._level.runs) < LEAST_BEFORE
        reach = (YOUNG_REACH if is_young else CERTAIN_REACH) * self.noise.lasting
        return abs(change) >= self.noise.own_margin(reach, len(baseline), len(suspects))

    def _confirming(self) -> int:
        """Return how many runs it takes: more where that many confirm each other by chance."""
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
        is_told = is_back or len(self._level.runs) >= LEAST_BEFORE
        if not is_told:
            before = {run.number: self._middle(self._level.runs) for run in self._level.runs}
            self._outliers |= {n: middle - self._middle(runs) for n, middle in before.items()}
        self._begin_level(runs, since)
        for at in range(len(self.judged) - count, len(self.judged)):
            if self.judged[at].rung == LEVEL:
                told = {"status": CONFIRMED, "since": since} if is_told else NOTHING
                self.judged[at] = replace(self.judged[at], **told)

    def _begin_level(self, runs: list[Observation], since: int | None = None) -> None:
        before, level = self._level, _Level(runs)
        self._levels.append(level)
        is_worse = self._middle(level.baseline) > self._middle(before.baseline)
        if is_worse and self._left is None and len(before.runs) >= LEAST_BEFORE:
            self._left, self._worse_since = before, since or runs[0].number

    def _clear(self) -> None:
        """Clear the suspected runs, which were no change: outliers, or on another machine."""
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

    def _of_level(self, run: Observation, before: Sequence[Observation]) -> JudgedRun:
        """Return the verdict on the run that showed it, with the change of the level as a whole."""
        change = self._middle(self._level.baseline) - self._middle(before)
        return replace(
            self._compared(run, CONFIRMED, before),
            direction=WORSE if change > 0 else BETTER,
            change=math.expm1(change),
            since=self._level.runs[0].number,
        )

    def _settle(self, run: Observation) -> None:
        """Decide whether the regression is still open after this run. It is judged again each time,
        because a few runs tell the height of a level only roughly.
        """
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
