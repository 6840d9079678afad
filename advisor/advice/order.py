"""The order of recommendations, and what several save together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal

from advisor.advice.recommendation import Recommendation
from advisor.money import rounded_usd

MOST_RISK = 4


def expected_saving_usd(advised: Recommendation) -> Decimal:
    """The saving times the probability that nothing goes wrong; 0: not known."""
    probability = Decimal(str(1 - advised.risk / MOST_RISK))
    return (advised.saving_usd or Decimal(0)) * probability


def in_order(advised: Iterable[Recommendation]) -> list[Recommendation]:
    """The highest expected saving first."""
    return sorted(advised, key=lambda each: (-expected_saving_usd(each), each.kind))


def without_conflicts(advised: Iterable[Recommendation]) -> list[Recommendation]:
    """The recommendations that can be followed together, the best of each conflict."""
    kept: list[Recommendation] = []
    for each in in_order(advised):
        if not any(_exclude(each, other) for other in kept):
            kept.append(each)
    return kept


def joint_saving_usd(advised: Sequence[Recommendation], cost_usd: Decimal) -> Decimal:
    """What following them all saves on one run.

    Fixes save different seconds of the run, so they add up. A price that changes, of the machine or
    of how it is bought, then applies to what is left. Of a conflict the best counts.
    """
    left = Decimal(1)
    together = [each for each in without_conflicts(advised) if each.saving_usd]
    if not cost_usd:
        return Decimal(0)
    saved = sum((_share(each, cost_usd) for each in together if not each.changes_price), Decimal(0))
    left = 1 - min(saved, Decimal(1))
    for each in together:
        if each.changes_price:
            left *= 1 - _share(each, cost_usd)
    return rounded_usd(cost_usd * (1 - left))


def _share(advised: Recommendation, cost_usd: Decimal) -> Decimal:
    return min((advised.saving_usd or Decimal(0)) / cost_usd, Decimal(1))


def _exclude(one: Recommendation, other: Recommendation) -> bool:
    return other.dedupe_key in one.conflicts_with or one.dedupe_key in other.conflicts_with
