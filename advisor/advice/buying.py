"""The ways to buy that a workspace allows, and the advice to use them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from advisor.advice.commitment import MachineUse, commit
from advisor.advice.purchase import (
    ON_DEMAND,
    SAGEMAKER,
    buy_spot,
    run_in_region,
    run_on_ec2,
)
from advisor.advice.recommendation import Recommendation, RuleJudgement, Spending
from advisor.pricing.book import PriceBook
from advisor.pricing.machine import InstanceType
from advisor.pricing.price import PriceKey
from advisor.pricing.providers.on_premises import PROVIDER as ON_PREMISES
from advisor.sizing.demand import Demand
from advisor.sizing.interruptions import InterruptionRate

SPOT, EC2, RESERVED = "spot", "ec2", "reserved"
WAYS = {SPOT: "spot", EC2: "EC2 instead of SageMaker", RESERVED: "commitments (reserved)"}
"""Name of a way to buy -> words."""


@dataclass(frozen=True)
class Buying:
    """The ways to buy that may be proposed. They fit any run, so none is a finding about one."""

    ways: frozenset[str] = frozenset()
    """The allowed ways, of `WAYS`."""
    regions: Mapping[str, Mapping[str, InstanceType]] = field(default_factory=dict)
    """Other regions that the job may run in -> the types offered there."""
    use: MachineUse | None = None
    """The use of machines like the run's; None if unknown, so that no commitment is proposed."""
    spot: InterruptionRate | None = None
    """The interruptions of spot machines like the run's; None if too few are known: then a table is
    taken."""


AS_NOW = Buying()


def not_considered(key: PriceKey, ways: Collection[str], has_regions: bool) -> list[str]:
    """Return in words what isn't allowed for machines bought like `key`; for own machines
    nothing.
    """
    if key.provider == ON_PREMISES.name:
        return []
    is_possible = {
        SPOT: key.purchase_option == ON_DEMAND,
        EC2: key.purchase_option == ON_DEMAND and key.service == SAGEMAKER,
        RESERVED: key.purchase_option == ON_DEMAND,
    }
    left = [words for way, words in WAYS.items() if is_possible[way] and way not in ways]
    return left if has_regions or not key.region else [*left, "other regions"]


def buy_differently(
    judgements: Sequence[RuleJudgement],
    spending: Spending,
    demand: Demand | None,
    book: PriceBook,
    as_of: datetime,
    allowed: Buying,
) -> list[Recommendation]:
    """Return how the same machines cost less, in each allowed way that pays."""
    ways = allowed.ways
    found = [
        buy_spot(judgements, spending, demand, book, as_of, allowed.spot) if SPOT in ways else None,
        run_on_ec2(spending, demand, book, as_of) if EC2 in ways else None,
        run_in_region(spending, demand, book, as_of, allowed.regions),
        commit(spending, demand, book, as_of, allowed.use) if RESERVED in ways else None,
    ]
    return [each for each in found if each is not None]
