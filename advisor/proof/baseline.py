"""The adjusted baseline: what later work would have cost at the level of the runs before.

Same work: the level's machine time per unit of work times the units of the later run, and the
start-up of the runs before. Same prices: the price of the earlier machine at the time of the later
run. So a longer week, a cheaper month or a shared machine is no saving.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median

from advisor.comparison.attribution import CostFactors
from advisor.money import rounded_usd
from advisor.proof.runs import CompleteRun, PriceOf
from advisor.successive.history import judge_runs
from advisor.successive.judged_run import Observation
from advisor.successive.machine_time import UNITS, Quantity, Worked
from advisor.successive.noise import Prior, location

SECONDS_PER_HOUR = 3600
LEAST_WORK = 0.1
"""A run that did less than this share of the usual work tells too little (ours)."""
SAME_AMOUNT = 0.05
"""Where start-up wasn't measured, only amounts as near as this are compared (ours)."""
BATCH_WORDS = ("batch", "batch_size", "batchsize", "global_batch", "global_batch_size")


class MissingError(ValueError):
    """A figure is missing. The message says which."""


@dataclass(frozen=True)
class Priced:
    """Machine time and its price, as factors of a cost."""

    machine_seconds: float
    node_count: int
    usd_per_machine_second: Decimal

    @property
    def usd(self) -> Decimal:
        return rounded_usd(self.usd_per_machine_second * Decimal(str(self.machine_seconds)))

    def factors(self) -> CostFactors:
        return CostFactors(
            cost_usd=self.usd,
            usd_per_hour=self.usd_per_machine_second * SECONDS_PER_HOUR,
            node_count=self.node_count,
            duration_seconds=Decimal(str(self.machine_seconds)) / self.node_count,
        )


@dataclass(frozen=True)
class Level:
    """The level of some successive runs in one configuration, in one quantity."""

    quantity: Quantity
    runs: tuple[CompleteRun, ...]
    seconds_per_unit: float
    fixed_seconds: float
    """Machine time of start-up and end."""
    spread: float
    """Of the logarithm of a run's time, from run to run."""

    def adjusted_to(self, run: CompleteRun, prices: PriceOf) -> Priced:
        """What the run's work would have taken and cost. Raises MissingError."""
        done = run.worked.work.get(self.quantity.unit, 0.0)
        self._check_amount(done)
        seconds = self.seconds_per_unit * done + self.fixed_seconds
        return Priced(seconds, _node_count(self.runs[-1]), self._rate(run, prices))

    def _check_amount(self, done: float) -> None:
        usual = median(each.worked.work[self.quantity.unit] for each in self.runs)
        if done < LEAST_WORK * usual:
            raise MissingError("it did less than a tenth of the usual work")
        if not self.quantity.is_loop and abs(done - usual) > SAME_AMOUNT * usual:
            raise MissingError(
                "it did another amount of work, and the start-up of the runs wasn't measured"
            )

    def _rate(self, run: CompleteRun, prices: PriceOf) -> Decimal:
        """At the time of the run. On the same machine the run's own, with its share of it."""
        own = run.usd_per_machine_second
        if own is not None and run.machine == self.runs[-1].machine:
            return own
        rates = [rate for each in self.runs if (rate := each.usd_per_machine_second) is not None]
        if not rates:
            raise MissingError("the runs before have no price")
        then, now = self.runs[-1].usd_per_hour, prices(self.runs[-1], run.at)
        return median(rates) * (now / then if now and then else 1)


def in_one_configuration(runs: Sequence[CompleteRun]) -> list[CompleteRun]:
    """Those in the configuration of the last one. Raises MissingError: there are none."""
    if not runs:
        raise MissingError("there is no complete run before it")
    return [run for run in runs if run.configuration_key == runs[-1].configuration_key]


def common_quantity(runs: Sequence[CompleteRun], later: CompleteRun) -> Quantity:
    """The first quantity that the later run tells, and one of the others. Raises MissingError."""
    for quantity in _quantities(runs[-1], later):
        told = (quantity.of(run.worked) for run in runs)
        if quantity.of(later.worked) is not None and any(value is not None for value in told):
            return quantity
    raise MissingError("it counts no work that the runs before count too")


def level_of(runs: Sequence[CompleteRun], quantity: Quantity, prior: Prior) -> Level:
    """The level at the end of runs in one configuration, of which at least one tells the
    quantity."""
    told = {run.number: run for run in runs if quantity.of(run.worked) is not None}
    observed = [
        Observation(run.number, quantity.of(run.worked) or 0.0, run.at) for run in told.values()
    ]
    history = judge_runs(observed, prior)
    level = tuple(told[number] for number in history.level)
    values = [math.log(quantity.of(run.worked) or 1.0) for run in level]
    return Level(
        quantity=quantity,
        runs=level,
        seconds_per_unit=math.exp(location(values, history.noise.spread)),
        fixed_seconds=median(_fixed(run.worked) for run in level) if quantity.is_loop else 0.0,
        spread=history.noise.spread,
    )


def actual(run: CompleteRun) -> Priced:
    """Raises MissingError."""
    rate = run.usd_per_machine_second
    if rate is None or run.worked.machine_seconds is None:
        raise MissingError("it has no price")
    return Priced(run.worked.machine_seconds, _node_count(run), rate)


def _quantities(one: CompleteRun, other: CompleteRun) -> Iterator[Quantity]:
    """Steps compare at equal batch size only."""
    for is_loop in (True, False):
        for unit in UNITS:
            if unit != "steps" or _batch(one) == _batch(other):
                yield Quantity(unit, is_loop)


def _batch(run: CompleteRun) -> list[str]:
    return [str(run.configuration.get(name)) for name in BATCH_WORDS]


def _fixed(worked: Worked) -> float:
    share, seconds = worked.loop_share, worked.machine_seconds
    return 0.0 if share is None or seconds is None else (1 - share) * seconds


def _node_count(run: CompleteRun) -> int:
    return int(run.configuration.get("node_count") or 1)
