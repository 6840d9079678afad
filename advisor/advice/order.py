"""The order of recommendations, and what several save together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Protocol

from advisor.advice.recommendation import PRIOR, Recommendation
from advisor.money import rounded_usd

MOST_RISK = 4


class SavingEstimate(Protocol):
    """The saving of a recommendation on one run, and what it rests on."""

    @property
    def rung(self) -> str: ...
    @property
    def saving_low_usd(self) -> Decimal | None: ...
    @property
    def saving_usd(self) -> Decimal | None: ...


def counted_saving_usd(advised: SavingEstimate) -> Decimal:
    """Return the saving by which recommendations are sorted: its low end if nobody has measured it,
    and 0 if it isn't known.
    """
    saving = advised.saving_low_usd if advised.rung == PRIOR else advised.saving_usd
    return saving or Decimal(0)


def sort_by_saving(advised: Iterable[Recommendation]) -> list[Recommendation]:
    """Sort by what saves most; of equal savings, the one that is less of a risk is first."""
    return sorted(advised, key=lambda each: (-counted_saving_usd(each), each.risk, each.kind))


def drop_conflicts(advised: Iterable[Recommendation]) -> list[Recommendation]:
    """Return the recommendations that can be followed together, in order. Of a conflict, the one
    with the highest expected saving.
    """
    kept: list[Recommendation] = []
    for each in sorted(advised, key=lambda each: (-_expected_saving_usd(each), each.kind)):
        if not any(_exclude(each, other) for other in kept):
            kept.append(each)
    return sort_by_saving(kept)


def _expected_saving_usd(advised: Recommendation) -> Decimal:
    """Return the saving times the probability that nothing goes wrong; 0 if it isn't known."""
    probability = Decimal(str(1 - advised.risk / MOST_RISK))
    return (advised.saving_usd or Decimal(0)) * probability


def joint_saving_usd(advised: Sequence[Recommendation], cost_usd: Decimal) -> Decimal:
    """Return what following them all saves on one run.

    Fixes save different seconds of the run, so they add up. A price that changes, of the machine or
    of how it is bought, then applies to what is left. Of a conflict the best counts.
    """
    together = [each for each in drop_conflicts(advised) if each.saving_usd]
    if not cost_usd:
        return Decimal(0)
    saved = sum((_share(each, cost_usd) for each in together if not each.changes_price), Decimal(0))
    left = 1 - min(saved, Decimal(1))
    keys = {each.dedupe_key for each in together}
    for each in together:
        if each.changes_price:
            after = [share for key, share in each.shares_after.items() if key in keys]
            left *= 1 - min(after, default=_share(each, cost_usd))
    return rounded_usd(cost_usd * (1 - left))


def _share(advised: Recommendation, cost_usd: Decimal) -> Decimal:
    return min((advised.saving_usd or Decimal(0)) / cost_usd, Decimal(1))


def _exclude(one: Recommendation, other: Recommendation) -> bool:
    return other.dedupe_key in one.conflicts_with or one.dedupe_key in other.conflicts_with
