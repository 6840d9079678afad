"""Commit to machines that are used enough: reserved, they cost less, used or not."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cached_property
from itertools import accumulate, pairwise

from advisor.advice.instance_type import KIND as CHANGE_INSTANCE_TYPE
from advisor.advice.purchase import (
    COMMIT,
    EC2,
    MARGIN,
    ON_DEMAND,
    REGION,
    RESERVED,
    SPOT,
    Hourly,
    hourly,
    same_machine,
)
from advisor.advice.recommendation import (
    Recommendation,
    SavingRange,
    Spending,
    risk_of_more_than,
)
from advisor.costing.cost import Interval, merge_intervals
from advisor.money import display_usd
from advisor.pricing.book import PriceBook
from advisor.sizing.demand import Demand

MONTH = timedelta(days=30)
"""The time whose use counts."""
MICROSECOND = timedelta(microseconds=1)
WEEK = timedelta(days=7)
HOURS_A_MONTH = 720
LEAST_RISK = 1.2
"""Four times the probability that the use falls: nobody knows the plans of a workspace (ours)."""
LEAST_SPREAD = 0.1
"""The least relative spread of the use from week to week, taken if it was steadier (ours)."""


@dataclass(frozen=True)
class MachineUse:
    """The use of machines of one type, region and service that a workspace bought on demand.

    `intervals`: machine -> aware starts and ends, in any order. What overlaps on one machine counts
    once, what lies outside of `since` to `until` not at all.
    """

    intervals: Mapping[str, Sequence[Interval]]
    since: datetime
    until: datetime

    def weeks(self) -> list[MachineUse]:
        """Return the whole weeks up to its end."""
        count = (self.until - self.since) // WEEK
        ends = [self.until - number * WEEK for number in range(count)]
        return [MachineUse(self.intervals, end - WEEK, end) for end in ends]


def busy_shares(use: MachineUse) -> list[float]:
    """Return, for n = 1, 2, ..., the share of the time in which at least n machines were in use."""
    length = (use.until - use.since) // MICROSECOND
    turns: Counter[datetime] = Counter()
    for intervals in use.intervals.values():
        for start, end in merge_intervals(_within(use, intervals)):
            turns[start] += 1
            turns[end] -= 1
    at_once: Counter[int] = Counter()
    in_use = 0
    for now, later in pairwise(sorted(turns)):
        in_use += turns[now]
        at_once[in_use] += (later - now) // MICROSECOND
    most = max(at_once, default=0)
    falling = accumulate(at_once[number] for number in range(most, 0, -1))
    return [microseconds / length for microseconds in falling][::-1]


def count_committed(shares: Sequence[float], break_even: float) -> int:
    """Return how many machines were in use clearly more than the break-even share of the time."""
    return sum(share * (1 - float(MARGIN)) > break_even for share in shares)


def commit(
    spending: Spending,
    demand: Demand | None,
    book: PriceBook,
    as_of: datetime,
    use: MachineUse | None,
) -> Recommendation | None:
    """Commit to as many machines like the run's as the whole workspace keeps busy.

    Savings are the job's part: its runs save the same share of their cost as all runs on these
    machines.
    """
    usd = price_reservation(demand, book, as_of)
    if demand is None or use is None or usd is None or not spending.cost_usd:
        return None
    shares = busy_shares(use)
    count = count_committed(shares, float(usd.ratio))
    chosen = _Commitment(demand, use, shares, count, usd)
    return _recommendation(chosen, spending, chosen.saving(spending.cost_usd)) if count else None


def price_reservation(demand: Demand | None, book: PriceBook, as_of: datetime) -> Hourly | None:
    """Return what a node costs on demand and reserved, or None if one has no price or the run was
    bought in another way.
    """
    if demand is None or demand.purchase_option != ON_DEMAND:
        return None
    return hourly(demand, book, as_of, purchase_option=RESERVED)


@dataclass(frozen=True)
class _Commitment:
    """A commitment to `count` machines; `shares` are those of `busy_shares`."""

    demand: Demand
    use: MachineUse
    shares: list[float]
    count: int
    usd: Hourly

    @property
    def machines(self) -> str:
        return f"{self.count} × {self.demand.instance_type}"

    @property
    def break_even(self) -> float:
        return float(self.usd.ratio)

    @property
    def monthly_usd(self) -> Decimal:
        """Return what all jobs of the workspace save together."""
        return self._saved_usd(self.shares) * HOURS_A_MONTH

    @cached_property
    def weeks(self) -> list[list[float]]:
        return [busy_shares(week) for week in self.use.weeks()]

    @property
    def spread(self) -> float:
        """Return the relative standard deviation of the use from week to week."""
        used = [sum(week) for week in self.weeks]
        mean = statistics.fmean(used) if used else 0.0
        return statistics.pstdev(used) / mean if mean else 0.0

    def saving(self, cost_usd: Decimal) -> SavingRange:
        """Return the saving of a run: its cost times the share that all runs save; the ends are
        those of the weeks with least and most use.
        """
        spent_usd = self.usd.now_usd * _decimal(sum(self.shares))
        likely = self._saved_usd(self.shares) / spent_usd
        each = [likely, *(self._saved_usd(week) / spent_usd for week in self.weeks)]
        return SavingRange.clamp(
            cost_usd, *(cost_usd * end for end in (min(each), likely, max(each)))
        )

    def _saved_usd(self, shares: Sequence[float]) -> Decimal:
        """Return the saving per hour of all machines together; below 0 if they cost more."""
        used = _decimal(sum(shares[: self.count]))
        return self.usd.now_usd * used - self.usd.then_usd * self.count

    @property
    def risk(self) -> float:
        spread = max(self.spread, LEAST_SPREAD)
        falls = risk_of_more_than(self.shares[self.count - 1], self.break_even, spread)
        return max(falls, LEAST_RISK)


def _recommendation(chosen: _Commitment, spending: Spending, saving: SavingRange) -> Recommendation:
    demand = chosen.demand
    return same_machine(
        COMMIT,
        spending,
        saving,
        title=f"Commit to {chosen.machines}",
        change={"purchase_option": RESERVED, "machines": chosen.count},
        risk=chosen.risk,
        risk_dimension="use",
        risk_reason="What is committed is paid for, used or not: if the use falls below "
        f"{100 * chosen.break_even:.0f} % of the time, it costs more.",
        effort="medium",
        evidence=_evidence(chosen),
        assumptions=[
            "The machines are used as in the last 30 days.",
            f"The jobs stay on {demand.instance_type} in {demand.region} for as long as the "
            "commitment lasts.",
        ],
        how_to_apply=[
            f"Buy a Savings Plan or reserved instances for {chosen.machines} in {demand.region}.",
            "Then declare what they cover: trimtab run --purchase-option reserved -- python "
            "train.py",
        ],
        conflicts_with=[SPOT, EC2, REGION, CHANGE_INSTANCE_TYPE],
    )


def _evidence(chosen: _Commitment) -> list[str]:
    shares, days = chosen.shares, (chosen.use.until - chosen.use.since).days
    hours = sum(shares) * 24 * days
    which = "it" if chosen.count == 1 else f"number {chosen.count}"
    varied = f"From week to week, the use varied by {100 * chosen.spread:.0f} %."
    return [
        f"All jobs of the workspace together used {hours:,.0f} machine hours on demand in the last "
        f"{days} days.",
        f"Break-even: in use {100 * chosen.break_even:.0f} % of the time; {which} was "
        f"{100 * shares[chosen.count - 1]:.0f} %.",
        f"Reserved, a machine costs {display_usd(chosen.usd.then_usd)} per hour, used or not, "
        f"instead of {display_usd(chosen.usd.now_usd)}.",
        f"It saves {display_usd(chosen.monthly_usd)} a month; this job's part goes by its hours.",
        *([varied] if chosen.weeks else []),
    ]


def _within(use: MachineUse, intervals: Iterable[Interval]) -> list[Interval]:
    held = [(max(start, use.since), min(end, use.until)) for start, end in intervals]
    return [(start, end) for start, end in held if start < end]


def _decimal(share: float) -> Decimal:
    return Decimal(str(share))
