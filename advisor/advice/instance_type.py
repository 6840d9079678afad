"""Change the instance type: the same run on a machine that costs less."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from advisor.advice.input_pipeline import cores_after_fix
from advisor.advice.kinds import UNUSED_GPUS
from advisor.advice.recommendation import (
    MEASURED,
    Recommendation,
    Saving,
    Spending,
    risk_of_more_than,
)
from advisor.money import display_usd
from advisor.pricing.book import PriceBook
from advisor.pricing.catalogue import GIB, InstanceType
from advisor.pricing.providers import availability_service
from advisor.sizing.candidates import Candidate, candidates
from advisor.sizing.constraints import USABLE_MEMORY
from advisor.sizing.demand import Demand, Preset
from advisor.sizing.layout import is_other_gpu
from advisor.sizing.other_gpus import rung_of
from advisor.sizing.speed import is_other_processor

KIND = "change_instance_type"
MINIMUM_SECONDS = 30.0
"""A shorter run says too little about the needs of the next one: 30 samples at one a second."""
MARGIN = Decimal("0.05")
"""The least saving of a switch, as a share of the cost. Besides, it must not cost more at the
adverse end of the prediction."""
CORES_SPREAD, MEMORY_SPREAD = 0.20, 0.10
"""Variation between runs of a job (log). Our choice."""
EIGHT_TENTHS = 2.56
"""Standard deviations between the ends of an 80 % interval."""
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
        return is_other_processor(self.now.machine, self.then.machine)

    @property
    def is_worthwhile(self) -> bool:
        """Cheaper by more than the margin, and not more expensive at the adverse end of the
        prediction."""
        mid, high = self.then.cost_mid_usd, self.then.cost_high_usd
        if mid is None or high is None:
            return False
        return high <= self.cost_usd and mid <= self.cost_usd * (1 - MARGIN)


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
    now = next((c for c in table if _is_present(c, demand)), None)
    if now is None:
        return None
    spent = cost_usd if now.cost_mid_usd is None else min(cost_usd, now.cost_mid_usd)
    fitting = (c for c in table if not c.rejected_because and c is not now)
    switches = (_Switch(demand, now, then, spent) for then in fitting)
    return next((switch for switch in switches if switch.is_worthwhile), None)


def _is_present(candidate: Candidate, demand: Demand) -> bool:
    place = candidate.instance_type, candidate.node_count
    return place == (demand.instance_type, demand.node_count)


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
        title=f"Run on {then.node_count} × {then.instance_type} instead of {_present(switch)}",
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
        rung=_rung(switch),
        how_to_apply=_how_to_apply(switch),
        risk_reason=_reason(switch, dimension),
        conflicts_with=[UNUSED_GPUS] if _gives_gpus_back(switch) else [],
    )


def _present(switch: _Switch) -> str:
    now = switch.now
    is_as_many = now.node_count == switch.then.node_count
    return now.instance_type if is_as_many else f"{now.node_count} × {now.instance_type}"


def _rung(switch: _Switch) -> str:
    """How the speed on the machine is known."""
    then = switch.then
    return rung_of(switch.demand, switch.now.machine, then.machine, then.node_count)


def _gives_gpus_back(switch: _Switch) -> bool:
    then = switch.then
    given = switch.demand.gpus * switch.demand.node_count
    return then.node_count * then.machine.gpu_count < given


def _saving(switch: _Switch, cost_usd: Decimal) -> Saving:
    low, mid, high = (
        switch.cost_usd - (cost or switch.cost_usd)
        for cost in (switch.then.cost_high_usd, switch.then.cost_mid_usd, switch.then.cost_low_usd)
    )
    return Saving.of(cost_usd, low, mid, high)


def _risk(switch: _Switch) -> tuple[float, str]:
    """The worst of these risks: too few cores, too little memory, so slow that it costs more."""
    machine, then, planned = switch.then.machine, switch.then, switch.then.planned
    spread = math.log(then.time_high_seconds / then.time_low_seconds) / EIGHT_TENTHS
    risks = {
        "cores": risk_of_more_than(machine.vcpus, planned.cores.mid, CORES_SPREAD),
        "memory": risk_of_more_than(
            machine.memory_bytes * USABLE_MEMORY, planned.memory_bytes, MEMORY_SPREAD
        ),
        "speed": risk_of_more_than(float(switch.cost_usd), float(then.cost_mid_usd or 0), spread),
    }
    dimension = max(risks, key=lambda name: risks[name])
    return risks[dimension], dimension


def _reason(switch: _Switch, dimension: str) -> str:
    machine, then, planned = switch.then.machine, switch.then, switch.then.planned
    if dimension == "cores":
        busy = f"{planned.cores.mid:.1f} of {machine.vcpus} would be busy"
        return f"The cores may become too few: {busy}."
    if dimension == "memory":
        needed, usable = planned.memory_bytes / GIB, machine.memory_bytes * USABLE_MEMORY / GIB
        return f"The memory may run out: {needed:.1f} of {usable:.1f} usable GiB would be in use."
    highest = display_usd(then.cost_high_usd)
    return f"It may run slower than predicted, and then cost up to {highest} a run."


def _how_to_apply(switch: _Switch) -> list[str]:
    then = switch.then
    if switch.demand.service == "sagemaker_training":
        return [
            "In the estimator, set:",
            f'instance_type="{then.instance_type}", instance_count={then.node_count}',
        ]
    return [f"Start the next run on {then.node_count} × {then.instance_type}."]


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
        evidence.append(_gpus(switch))
    if fix:
        evidence.append(_interaction(saving, fix, spending, demand))
    return evidence


def _gpus(switch: _Switch) -> str:
    demand, then = switch.demand, switch.then
    given = demand.gpus * demand.node_count
    is_other = is_other_gpu(switch.now.machine, then.machine)
    model = f"model {then.machine.gpu_model}" if is_other else "the same model"
    left = f"{then.instance_type} has {then.machine.gpu_count} of {model}"
    if demand.gpu_use is None:
        return f"{given} GPUs were given to the run; {left}."
    load = f"together as busy as {demand.gpu_use.load:.1f} full ones"
    return f"{demand.gpus_used} of {given} GPUs were in use, {load}; {left}."


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
    assumptions = [_nodes(switch)]
    if switch.then.planned.gpus < switch.demand.gpus_used:
        assumptions.append(
            f"{switch.then.planned.gpus} GPUs do the work of {switch.demand.gpus_used}. Keep the "
            "global batch, by accumulating gradients: another one may change the results."
        )
    if switch.is_other_processor and _rung(switch) != MEASURED:
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


def _nodes(switch: _Switch) -> str:
    before, after = switch.now.node_count, switch.then.node_count
    if before == after:
        return f"The number of nodes stays at {after}."
    return f"The work of {before} nodes is spread evenly over {after}."


def _shown(switch: _Switch, table: Sequence[Candidate]) -> list[Candidate]:
    """The chosen machine, the present one, the cheapest others, then rejected machines that would
    be cheaper than now ("why not that one?"), nearest in the cost of a run first."""
    chosen = [switch.then, switch.now]
    fitting = [c for c in table if not c.rejected_because and c not in chosen]
    cost = switch.then.cost_mid_usd or Decimal(0)
    rejected = [
        (abs(c.cost_mid_usd - cost), c.instance_type, c)
        for c in table
        if c.rejected_because and c.cost_mid_usd and c.cost_mid_usd < switch.cost_usd
    ]
    nearest = [c for _, _, c in sorted(rejected, key=lambda entry: entry[:2])]
    return chosen + fitting[: SHOWN - 2] + nearest[:SHOWN]
