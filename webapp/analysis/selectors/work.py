"""Cost per unit of work, for a readable amount of the unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Protocol

from advisor.money import display_usd_per_unit

UNITS = ("samples", "tokens", "epochs", "steps")
"""The order in which units are tried. Steps are last, because they compare only at equal batch
size."""
READABLE_USD = 0.01
AMOUNTS = {1: "", 1_000: "thousand", 1_000_000: "million", 1_000_000_000: "billion"}


class HasWork(Protocol):
    """A run, or what was read of it."""

    @property
    def cost_usd(self) -> Decimal | None: ...

    @property
    def work(self) -> Mapping[str, float]: ...


@dataclass(frozen=True)
class WorkUnit:
    """The work that a cost refers to: `amount` of `unit`, for example 1,000 samples."""

    unit: str
    amount: int

    def __str__(self) -> str:
        if self.amount == 1:
            return self.singular
        return f"{AMOUNTS[self.amount]} {self.unit}"

    @property
    def singular(self) -> str:
        return self.unit.removesuffix("s")

    def display_usd(self, usd_each: Decimal) -> str:
        """Return the cost of this amount; `usd_each`: of one unit."""
        return display_usd_per_unit(usd_each * self.amount)

    def cost_usd(self, run: HasWork) -> Decimal | None:
        """Return the cost; None without a price, or if this work wasn't counted."""
        done, cost_usd = run.work.get(self.unit), run.cost_usd
        if cost_usd is None or not done:
            return None
        return Decimal(cost_usd) * self.amount / Decimal(str(done))


def common_unit(runs: Sequence[HasWork]) -> WorkUnit | None:
    """Return the first unit that every priced run counted; None if there is no such unit."""
    priced = [run for run in runs if run.cost_usd]
    for unit in UNITS:
        if priced and all(run.work.get(unit) for run in priced):
            return WorkUnit(unit, _amount(unit, priced))
    return None


def counted_units(run: HasWork) -> list[WorkUnit]:
    """Return every unit of work that a priced run counted."""
    if not run.cost_usd:
        return []
    return [WorkUnit(unit, _amount(unit, [run])) for unit in UNITS if run.work.get(unit)]


def readable_amount(unit: str, usd_each: float) -> WorkUnit:
    """Return the smallest amount that costs at least a cent, if one unit has this cost."""
    costs = (amount for amount in AMOUNTS if usd_each * amount >= READABLE_USD)
    return WorkUnit(unit, next(costs, 1_000_000_000))


def readable_seconds(unit: str, seconds_each: float) -> WorkUnit:
    """Return the smallest amount that takes at least a second, if one unit takes this long."""
    amounts = (amount for amount in AMOUNTS if seconds_each * amount >= 1)
    return WorkUnit(unit, next(amounts, 1_000_000_000))


def _amount(unit: str, runs: Sequence[HasWork]) -> int:
    """Return the amount for which the cheapest run's cost is readable."""
    return readable_amount(
        unit, min(float(run.cost_usd or 0) / run.work[unit] for run in runs)
    ).amount
