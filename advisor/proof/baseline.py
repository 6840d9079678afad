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
from functools import cached_property
from statistics import median

from advisor.comparison.attribution import CostFactors
from advisor.money import rounded_usd
from advisor.proof.runs import CompleteRun, PriceOf
from advisor.successive.history import judge_runs
from advisor.successive.judged_run import Observation
from advisor.successive.machine_time import UNITS, MachineWork, Quantity
from advisor.successive.noise import Prior, location

SECONDS_PER_HOUR = 3600
LEAST_WORK = 0.1
"""A run that did less than this share of the usual work tells too little (ours)."""
SAME_AMOUNT = 0.05
"""The difference up to which amounts are compared where start-up wasn't measured (ours)."""
BATCH_WORDS = ("batch", "batch_size", "batchsize", "global_batch", "global_batch_size")


class MissingFigureError(ValueError):
    """A figure is missing. The message says which."""


@dataclass(frozen=True)
class PricedTime:
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
class ConfigurationLevel:
    """The level of some successive runs in one configuration, in one quantity."""

    quantity: Quantity
    runs: tuple[CompleteRun, ...]
    seconds_per_unit: float
    fixed_seconds: float
    """Machine time of start-up and end."""
    spread: float
    """The spread of the logarithm of a run's time, from run to run."""

    def adjusted_to(self, run: CompleteRun, prices: PriceOf) -> PricedTime:
        """Return what the run's work would have taken and cost. Raises MissingError."""
        done = run.worked.work.get(self.quantity.unit, 0.0)
        self._check_amount(done)
        seconds = self.seconds_per_unit * done + self.fixed_seconds
        return PricedTime(seconds, _node_count(self.runs[-1]), self._rate(run, prices))

    def error(self, priced: PricedTime) -> float:
        """Return the standard error of the level's cost."""
        return self.spread * float(priced.usd) / math.sqrt(len(self.runs))

    @cached_property
    def _usual_amount(self) -> float:
        return median(each.worked.work[self.quantity.unit] for each in self.runs)

    def _check_amount(self, done: float) -> None:
        usual = self._usual_amount
        if done < LEAST_WORK * usual:
            raise MissingFigureError("it did less than a tenth of the usual work")
        if not self.quantity.is_loop and abs(done - usual) > SAME_AMOUNT * usual:
            raise MissingFigureError(
                "it did another amount of work, and the start-up of the runs wasn't measured"
            )

    def _rate(self, run: CompleteRun, prices: PriceOf) -> Decimal:
        """Return the rate at the time of the run. On the same machine it is the run's own, with its
        share of the machine.
        """
        own = run.usd_per_machine_second
        if own is not None and run.machine == self.runs[-1].machine:
            return own
        rates = [rate for each in self.runs if (rate := each.usd_per_machine_second) is not None]
        if not rates:
            raise MissingFigureError("the runs before have no price")
        now = prices(self.runs[-1], run.at)
        return median(rates) if now is None else self._priced_at(now) or median(rates)

    def _priced_at(self, usd_per_hour: Decimal) -> Decimal | None:
        """Return what a machine second costs at another price, with the runs' share of the machine;
        None if their own price isn't known.
        """
        shares = [
            rate / each.usd_per_hour
            for each in self.runs
            if (rate := each.usd_per_machine_second) is not None and each.usd_per_hour
        ]
        return usd_per_hour * median(shares) if shares else None


def common_quantity(runs: Sequence[CompleteRun], later: CompleteRun) -> Quantity:
    """Return the first quantity that the later run tells, and one of the others. Raises
    MissingError.
    """
    for quantity in _quantities(runs[-1], later):
        told = (quantity.seconds_per_unit(run.worked) for run in runs)
        if quantity.seconds_per_unit(later.worked) is not None and any(
            value is not None for value in told
        ):
            return quantity
    raise MissingFigureError("it counts no work that the runs before count too")


def level_of(
    runs: Sequence[CompleteRun], last: CompleteRun, quantity: Quantity, prior: Prior
) -> ConfigurationLevel:
    """Return the level that held at the run `last`, from all of its runs, later ones too.

    Args:
        runs: those in one configuration, of which at least one tells the quantity.
        last: one of them. If it doesn't tell the quantity, the run before that does counts.
    """
    told = {run.number: run for run in runs if quantity.seconds_per_unit(run.worked) is not None}
    observed = [
        Observation(run.number, quantity.seconds_per_unit(run.worked) or 0.0, run.at)
        for run in told.values()
    ]
    history = judge_runs(observed, prior)
    before = [run.number for run in told.values() if run.order <= last.order] or list(told)
    held = {number: numbers for numbers in history.levels for number in numbers}
    level = tuple(told[number] for number in held.get(before[-1], history.level))
    values = [math.log(quantity.seconds_per_unit(run.worked) or 1.0) for run in level]
    return ConfigurationLevel(
        quantity=quantity,
        runs=level,
        seconds_per_unit=math.exp(location(values, history.noise.spread)),
        fixed_seconds=median(_fixed(run.worked) for run in level) if quantity.is_loop else 0.0,
        spread=history.noise.spread,
    )


def actual(run: CompleteRun) -> PricedTime:
    """Return what the run took and cost. Raises MissingError."""
    rate = run.usd_per_machine_second
    if rate is None or run.worked.machine_seconds is None:
        raise MissingFigureError("it has no price")
    return PricedTime(run.worked.machine_seconds, _node_count(run), rate)


def _quantities(one: CompleteRun, other: CompleteRun) -> Iterator[Quantity]:
    """Yield the quantities that compare both runs: steps only at equal batch size."""
    for is_loop in (True, False):
        for unit in UNITS:
            if unit != "steps" or _batch(one) == _batch(other):
                yield Quantity(unit, is_loop)


def _batch(run: CompleteRun) -> list[str]:
    return [str(run.configuration.get(name)) for name in BATCH_WORDS]


def _fixed(worked: MachineWork) -> float:
    share, seconds = worked.loop_share, worked.machine_seconds
    return 0.0 if share is None or seconds is None else (1 - share) * seconds


def _node_count(run: CompleteRun) -> int:
    return int(run.configuration.get("node_count") or 1)
