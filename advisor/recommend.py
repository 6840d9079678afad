"""What to change, for how much less, at which risk: at most one recommendation of a kind."""

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
    """What one run gives reason for, in the order in which to do it.

    Each saving is that change alone against the run as it was; two of them don't add up, and the
    evidence of the second says what is left of it after the first.

    Args:
        demand: what the run used; None where it wasn't measured or its nodes aren't alike: then
            no other machine is proposed.
        cost_usd: of the run; None: no price, and no saving in money is given.
        recent_costs_usd: of the job's priced runs of the last 30 days, this one with them.
        as_of: the time whose prices and availability count; aware.
    """
    spending = Spending(cost_usd, duration_seconds, tuple(recent_costs_usd))
    fix = fix_input_pipeline(judgements, spending, demand, catalogue)
    change = change_instance_type(spending, demand, book, catalogue, as_of, preset, fix)
    return [advised for advised in (fix, change) if advised is not None]
