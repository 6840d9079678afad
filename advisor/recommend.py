"""Recommendations with savings and risk: at most one of each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal

from advisor.advice.input_pipeline import fix_input_pipeline
from advisor.advice.instance_type import change_instance_type
from advisor.advice.recommendation import Recommendation, RuleJudgement, Spending
from advisor.pricing.book import PriceBook
from advisor.pricing.catalogue import InstanceType
from advisor.sizing.demand import BALANCED, Demand, Preset

LEAK = "host_memory_leak"
__all__ = ["Recommendation", "RuleJudgement", "recommend"]


def recommend(
    judgements: Sequence[RuleJudgement],
    demand: Demand | None,
    cost_usd: Decimal | None,
    duration_seconds: float,
    recent_costs_usd: Sequence[Decimal],
    book: PriceBook,
    catalogue: Mapping[str, InstanceType],
    as_of: datetime,
    preset: Preset = BALANCED,
) -> list[Recommendation]:
    """The recommendations from one run, in the order in which to follow them.

    Each saving is for that change alone. Two savings don't add up: the evidence of the second gives
    its remaining saving after the first.

    Args:
        demand: the run's resource use; None if it wasn't measured or its nodes differ. Then no
            other machine is recommended, nor while the run's memory grows without end.
        cost_usd: of the run; None: no price, and no saving in money is given.
        recent_costs_usd: of the job's priced runs of the last 30 days, including this one.
        as_of: the time whose prices and availability count; aware.
    """
    spending = Spending(cost_usd, duration_seconds, tuple(recent_costs_usd))
    fix = fix_input_pipeline(judgements, spending, demand, catalogue)
    sized = None if _leaks(judgements) else demand
    change = change_instance_type(spending, sized, book, catalogue, as_of, preset, fix)
    return [advised for advised in (fix, change) if advised is not None]


def _leaks(judgements: Sequence[RuleJudgement]) -> bool:
    """Then the memory that the run reached says nothing about what it needs."""
    return any(j.rule_id == LEAK and j.verdict.state == "fired" for j in judgements)
