"""A recommendation, and what every kind of recommendation needs: money and risk."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from advisor.money import rounded_usd
from rules.rule import Numbers, Verdict

MEASURED, SAME, HISTORY, PRIOR = "measured", "same", "history", "prior"
"""The evidence of an estimate, the best first: this job or a probe ran so; the GPU model stays;
other jobs of the workspace ran on both machines; public measurements and data sheets."""
MOST_RISK_MAILED = 3.0
PRICE_SETTINGS = frozenset({"instance_type", "purchase_option", "region", "service"})
"""The settings of a change on which the price of an hour depends."""


class RuleJudgement(Protocol):
    """A rule's judgement of the run, as from `rules.engine`."""

    @property
    def rule_id(self) -> str: ...
    @property
    def verdict(self) -> Verdict: ...
    @property
    def numbers(self) -> Numbers: ...


@dataclass(frozen=True)
class Recommendation:
    """One change. Savings are USD per run, from 0 to its cost; None: no price."""

    kind: str
    title: str
    change: dict[str, Any]
    """Setting -> its new value."""
    saving_low_usd: Decimal | None
    saving_usd: Decimal | None
    saving_high_usd: Decimal | None
    monthly_saving_usd: Decimal | None
    """The saving over the actual runs of the last 30 days; that of a `prior` is at the low end."""
    risk: float
    """0 to 4: four times the probability of the problem in `risk_dimension`."""
    risk_dimension: str
    effort: str
    """`very_low`, `low`, `medium`, `high`."""
    evidence: list[str]
    assumptions: list[str]
    candidates: list[dict[str, Any]]
    """`Candidate.to_document()` of each candidate, including rejected ones with the reason."""
    dedupe_key: str
    """One per job and cause; the same cause keeps its key from run to run."""
    rung: str = SAME
    """The basis of the estimate: `measured`, `same`, `history` or `prior`."""
    how_to_apply: list[str] = field(default_factory=list)
    """Steps to follow or lines to copy, in order."""
    risk_reason: str = ""
    """The reason why it is a risk, in one sentence."""
    conflicts_with: list[str] = field(default_factory=list)
    """Dedupe keys of recommendations that can't be followed together with this one."""
    shares_after: dict[str, Decimal] = field(default_factory=dict)
    """Dedupe key of another one -> the share that this one saves of what that one leaves, if it
    isn't the share that it saves alone."""
    rules: list[str] = field(default_factory=list)
    """The rules whose findings it answers. A later run on which they pass has followed it."""

    @property
    def changes_price(self) -> bool:
        """Return whether it changes what an hour costs, and so the worth of every saved hour."""
        return bool(PRICE_SETTINGS & self.change.keys())


@dataclass(frozen=True)
class SavingRange:
    """The saving on one run in USD, as a range within 0 and the run's cost."""

    low: Decimal
    mid: Decimal
    high: Decimal

    @classmethod
    def clamp(cls, cost_usd: Decimal, low: Decimal, mid: Decimal, high: Decimal) -> SavingRange:
        """Return the saving, sorted and clamped to 0 and the cost."""
        return cls(*sorted(_within(usd, cost_usd) for usd in (low, mid, high)))


@dataclass(frozen=True)
class Spending:
    """The run's cost and duration, and the cost of the job's runs of the last 30 days."""

    cost_usd: Decimal | None
    duration_seconds: float
    recent_costs_usd: tuple[Decimal, ...]

    def monthly_usd(self, saving: SavingRange | None, rung: str) -> Decimal | None:
        """Return the same share of each recent run, or None without a price. Nobody has measured
        what a `prior` saves, so only its low end counts.
        """
        if saving is None or not self.cost_usd:
            return None
        total = sum(self.recent_costs_usd, Decimal(0))
        counted = saving.low if rung == PRIOR else saving.mid
        return _within(total * counted / self.cost_usd, total)


def _within(usd: Decimal, spent_usd: Decimal) -> Decimal:
    """Return the amount in nano-dollars, never above the spend, which may have more digits."""
    return min(rounded_usd(max(usd, Decimal(0))), spent_usd)


def risk_of_more_than(capacity: float, demand: float, spread: float) -> float:
    """Return four times the probability (0 to 4) that a later run needs more than is available.

    Args:
        spread: the standard deviation of the demand's logarithm from run to run.
    """
    if demand <= 0:
        return 0.0
    if capacity <= 0:
        return 4.0
    deviations = math.log(capacity / demand) / spread
    return round(2 * math.erfc(deviations / math.sqrt(2)), 2)
