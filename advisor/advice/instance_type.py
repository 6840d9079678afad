"""Change the instance type: the same run on a machine that costs less."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from advisor.advice.input_pipeline import cores_after_fix
from advisor.advice.recommendation import Recommendation, Saving, Spending, risk_of_more_than
from advisor.money import display_usd
from advisor.pricing.book import PriceBook
from advisor.pricing.catalogue import GIB, InstanceType
from advisor.pricing.providers import availability_service
from advisor.sizing.candidates import USABLE_MEMORY, Candidate, candidates
from advisor.sizing.demand import Demand, Preset
from advisor.sizing.speed import OTHER_PROCESSOR_SPREAD, processor_spread

KIND = "change_instance_type"
MINIMUM_SECONDS = 30.0
"""A shorter run says too little about the needs of the next one: 30 samples at one a second."""
MARGIN = Decimal("0.10")
MARGIN_OTHER_PROCESSOR = Decimal("0.25")
"""The least saving of a switch, as a share of the cost. Requiring a quarter, if speed is predicted
from other hardware, cut harmful advice from 23 % to none on 280 public measurements."""
CORES_SPREAD, MEMORY_SPREAD = 0.20, 0.10
"""Variation between runs of a job (log). Our choice."""
NINE_TENTHS = 3.29
"""Standard deviations between the ends of a 90 % interval."""
SHOWN = 10


@dataclass(frozen=True)
class _Switch:
    """A switch from `now` to `then`. `cost_usd` is the run's cost, at today's price if that is
    lower."""

    demand: Demand
    now: Candidate
    then: Candidate
    cost_usd: Decimal

    @property
    def is_other_processor(self) -> bool:
        spread = processor_spread(self.now.machine, self.then.machine)
        return spread >= OTHER_PROCESSOR_SPREAD

    @property
    def is_worthwhile(self) -> bool:
        """Cheaper by more than the margin, and not more expensive at the adverse end of the
        prediction."""
        mid, high = self.then.cost_mid_usd, self.then.cost_high_usd
        if mid is None or high is None:
            return False
        margin = MARGIN_OTHER_PROCESSOR if self.is_other_processor else MARGIN
        return high <= self.cost_usd and mid <= self.cost_usd * (1 - margin)


def change_instance_type(
    spending: Spending,
    demand: Demand | None,
    book: PriceBook,
    catalogue: Mapping[str, InstanceType],
    as_of: datetime,
    preset: Preset,
    fix: Recommendation | None,
) -> Recommendation | None:
    """The cheapest machine that fits the run, if it saves enough.

    Args:
        fix: the fix of the input pipeline, if it is recommended too. Then the machine must also fit
            the faster run after the fix.
    """
    if demand is None or spending.cost_usd is None or demand.duration_seconds < MINIMUM_SECONDS:
        return None
    recovered = _recovered_share(fix, spending)
    needed = replace(demand, cores_busy_p95=cores_after_fix(demand.cores_busy_p95, recovered))
    table = candidates(needed, book, catalogue, as_of, preset)
    switch = _best(needed, table, spending.cost_usd)
    if switch is None:
        return None
    saving = _saving(switch, spending.cost_usd)
    return _recommendation(switch, saving, table, spending, fix)


def _best(demand: Demand, table: list[Candidate], cost_usd: Decimal) -> _Switch | None:
    now = next((c for c in table if c.instance_type == demand.instance_type), None)
    if now is None:
        return None
    spent = cost_usd if now.cost_mid_usd is None else min(cost_usd, now.cost_mid_usd)
    fitting = (c for c in table if not c.rejected_because and c is not now)
    switches = (_Switch(demand, now, then, spent) for then in fitting)
    return next((switch for switch in switches if switch.is_worthwhile), None)


def _recommendation(
    switch: _Switch,
    saving: Saving,
    table: list[Candidate],
    spending: Spending,
    fix: Recommendation | None,
) -> Recommendation:
    risk, dimension = _risk(switch)
    then = switch.then
    return Recommendation(
        kind=KIND,
        title=f"Run on {then.node_count} × {then.instance_type} "
        f"instead of {switch.now.instance_type}",
        change={"instance_type": then.instance_type, "node_count": then.node_count},
        saving_low_usd=saving.low,
        saving_usd=saving.mid,
        saving_high_usd=saving.high,
        monthly_saving_usd=spending.monthly_usd(saving),
        risk=risk,
        risk_dimension=dimension,
        effort=_effort(switch),
        evidence=_evidence(switch, saving, spending, fix),
        assumptions=_assumptions(switch),
        candidates=[c.to_document() for c in _shown(switch, table)],
        dedupe_key=KIND,
    )


def _saving(switch: _Switch, cost_usd: Decimal) -> Saving:
    low, mid, high = (
        switch.cost_usd - (cost or switch.cost_usd)
        for cost in (switch.then.cost_high_usd, switch.then.cost_mid_usd, switch.then.cost_low_usd)
    )
    return Saving.of(cost_usd, low, mid, high)


def _risk(switch: _Switch) -> tuple[float, str]:
    """The worst of these risks: too few cores, too little memory, so slow that it costs more."""
    demand, machine, then = switch.demand, switch.then.machine, switch.then
    spread = math.log(then.time_high_seconds / then.time_low_seconds) / NINE_TENTHS
    risks = {
        "cores": risk_of_more_than(machine.vcpus, demand.cores_busy_p95, CORES_SPREAD),
        "memory": risk_of_more_than(
            machine.memory_bytes * USABLE_MEMORY, demand.memory_p99_bytes, MEMORY_SPREAD
        ),
        "speed": risk_of_more_than(float(switch.cost_usd), float(then.cost_mid_usd or 0), spread),
    }
    dimension = max(risks, key=lambda name: risks[name])
    return risks[dimension], dimension


def _effort(switch: _Switch) -> str:
    is_same = switch.now.machine.family == switch.then.machine.family
    return "very_low" if is_same else "low"


def _recovered_share(fix: Recommendation | None, spending: Spending) -> float:
    """The largest share of time that the fix of the input pipeline can save."""
    if fix is None or fix.saving_high_usd is None or not spending.cost_usd:
        return 0.0
    return float(fix.saving_high_usd / spending.cost_usd)


def _evidence(
    switch: _Switch, saving: Saving, spending: Spending, fix: Recommendation | None
) -> list[str]:
    now, then, demand = switch.now, switch.then, switch.demand
    recovered = _recovered_share(fix, spending)
    busy = demand.cores_busy_p95 * (1 - recovered) if fix else demand.cores_busy_p95
    evidence = [
        f"{busy:.1f} of {now.machine.vcpus} cores were busy (p95); "
        f"{then.instance_type} has {then.machine.vcpus}.",
        f"{demand.memory_p99_bytes / GIB:.1f} of {now.machine.memory_bytes / GIB:.0f} GiB of "
        f"memory were in use (p99); {then.instance_type} has "
        f"{then.machine.memory_bytes / GIB:.0f} GiB.",
        f"{then.instance_type} costs {display_usd(then.usd_per_hour)} per hour instead of "
        f"{display_usd(now.usd_per_hour)}.",
    ]
    if demand.gpus:
        evidence.append(
            f"{demand.gpus} of {now.machine.gpu_count} GPUs in use; the GPU model stays the same."
        )
    if fix:
        evidence.append(_interaction(saving, fix, spending, demand))
    return evidence


def _interaction(saving: Saving, fix: Recommendation, spending: Spending, demand: Demand) -> str:
    """The remaining saving after the fix of the input pipeline."""
    kept = 1 - float((fix.saving_usd or Decimal(0)) / (spending.cost_usd or Decimal(1)))
    left = saving.mid * Decimal(str(kept))
    return (
        f"Fix the input pipeline first. The run is then shorter, so this change saves about "
        f"{display_usd(left)} instead of {display_usd(saving.mid)}. About "
        f"{demand.cores_busy_p95:.1f} cores will be busy; this machine is sized for that."
    )


def _assumptions(switch: _Switch) -> list[str]:
    assumptions = [f"The number of nodes stays at {switch.then.node_count}."]
    if switch.is_other_processor:
        assumptions.append("The processor differs, and its speed on this job was not measured.")
    listing = availability_service(switch.demand.service)
    if listing is not None:
        assumptions.append(
            f"Instance types that {listing.title} no longer offers are unavailable here too."
        )
    if switch.then.is_estimated_price:
        assumptions.append("The price is estimated, or from a later date.")
    if switch.then.list_price_of is not None:
        assumptions.append(f"The price is the list price of {switch.then.list_price_of}.")
    return assumptions


def _shown(switch: _Switch, table: Sequence[Candidate]) -> list[Candidate]:
    """The chosen machine, the present one, the cheapest others, then rejected machines that would
    be cheaper than now ("why not that one?"), nearest in price first."""
    chosen = [switch.then, switch.now]
    fitting = [c for c in table if not c.rejected_because and c not in chosen]
    price, most = switch.then.usd_per_hour or Decimal(0), switch.now.usd_per_hour
    rejected = [
        (abs(c.usd_per_hour - price), c.instance_type, c)
        for c in table
        if c.rejected_because and c.usd_per_hour and most and c.usd_per_hour < most
    ]
    nearest = [c for _, _, c in sorted(rejected, key=lambda entry: entry[:2])]
    return chosen + fitting[: SHOWN - 2] + nearest[:SHOWN]
