"""The switches of a run to other machines that pay, with and without the fix of its loader."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from advisor.money import rounded_usd
from advisor.pricing.book import PriceBook
from advisor.pricing.machine import InstanceType
from advisor.sizing.candidates import Candidate, candidate_on
from advisor.sizing.demand import Demand, Preset
from advisor.sizing.speed import is_other_processor

MARGIN = Decimal("0.05")
"""The least saving of a switch, as a share of the cost. Besides, it must not cost more at the
adverse end of the prediction."""


@dataclass(frozen=True)
class AfterFix:
    """The run whose input pipeline is fixed: on its present machines, and on the other ones."""

    demand: Demand
    """The demand at the most that the fix can give back: what the other machines must hold."""
    then: Candidate
    """The other machines, under that demand."""
    stays_usd: Decimal
    """The likely cost of the run on its present machines; `moves_usd` is that on the others."""
    moves_usd: Decimal

    @property
    def saved_share(self) -> Decimal:
        """Return what the switch saves of what the fix leaves."""
        return max(1 - self.moves_usd / self.stays_usd, Decimal(0))


@dataclass(frozen=True)
class Switch:
    """A switch from `now` to `then`. `cost_usd` is the run's cost, at today's price if that is
    lower."""

    demand: Demand
    now: Candidate
    then: Candidate
    cost_usd: Decimal
    after: AfterFix | None = None
    """The switch after the fix; None if no fix is advised, or the switch doesn't pay or fit beside
    it."""

    @property
    def at_most(self) -> Candidate:
        """Return the other machines under the highest demand that is foreseen."""
        return self.after.then if self.after else self.then

    @property
    def is_other_processor(self) -> bool:
        return is_other_processor(self.now.machine, self.then.machine)

    @property
    def is_worthwhile(self) -> bool:
        """Return whether it is cheaper by more than the margin, and not more expensive at the
        adverse end of the prediction.
        """
        return _pays(self.then, self.cost_usd)


def _pays(then: Candidate, cost_usd: Decimal) -> bool:
    mid, high = then.cost_mid_usd, then.cost_high_usd
    return (
        mid is not None
        and high is not None
        and (high <= cost_usd and mid <= cost_usd * (1 - MARGIN))
    )


@dataclass(frozen=True)
class SwitchTerms:
    """The prices and limits by which candidates are compared."""

    book: PriceBook
    catalogue: Mapping[str, InstanceType]
    as_of: datetime
    preset: Preset


def paying_switches(demand: Demand, table: list[Candidate], cost_usd: Decimal) -> list[Switch]:
    """Return those that fit and pay, the cheapest first."""
    now = next((c for c in table if _is_present(c, demand)), None)
    if now is None:
        return []
    spent = cost_usd if now.cost_mid_usd is None else min(cost_usd, now.cost_mid_usd)
    fitting = (c for c in table if not c.rejected_because and c is not now)
    switches = (Switch(demand, now, then, spent) for then in fitting)
    return [switch for switch in switches if switch.is_worthwhile]


def switch_beside_fix(
    switch: Switch, likely: float, most: float, on: SwitchTerms
) -> AfterFix | None:
    """Return the switch beside the fix, or None if the machines don't fit the faster run, or don't
    pay then.

    Args:
        likely: the share of the time that the fix saves; `most`: at most.
    """
    shortest, usual = switch.demand.done_faster(most), switch.demand.done_faster(likely)
    then, moved = (_moved(switch, demand, on) for demand in (shortest, usual))
    least, stays = (_stays_usd(switch, demand) for demand in (shortest, usual))
    if then.rejected_because or moved.cost_mid_usd is None or not _pays(then, least):
        return None
    return AfterFix(shortest, then, stays, moved.cost_mid_usd)


def _moved(switch: Switch, demand: Demand, on: SwitchTerms) -> Candidate:
    """Return the other machines under the demand. It may take as long as the run may today, so that
    fuller GPUs are no reason against them.
    """
    longest = (1 + on.preset.slowdown_limit) * switch.demand.duration_seconds
    limit = longest / demand.duration_seconds - 1
    preset = replace(on.preset, gpu_target=math.inf, slowdown_limit=limit)
    now, then = switch.now.machine, switch.then
    return candidate_on(demand, now, then.machine, then.node_count, on.book, on.as_of, preset)


def _stays_usd(switch: Switch, demand: Demand) -> Decimal:
    kept = demand.duration_seconds / switch.demand.duration_seconds
    return rounded_usd(switch.cost_usd * Decimal(str(kept)))


def _is_present(candidate: Candidate, demand: Demand) -> bool:
    place = candidate.instance_type, candidate.node_count
    return place == (demand.instance_type, demand.node_count)
