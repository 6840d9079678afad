"""Change the instance type: the same run on a machine that costs less."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from advisor.advice.input_pipeline import KIND as FIX_INPUT_PIPELINE
from advisor.advice.kinds import UNUSED_GPUS
from advisor.advice.recommendation import (
    MEASURED,
    Recommendation,
    SavingRange,
    Spending,
    risk_of_more_than,
)
from advisor.advice.switch import AfterFix, Switch, SwitchTerms, paying_switches, switch_beside_fix
from advisor.money import display_usd
from advisor.pricing.book import PriceBook
from advisor.pricing.catalogue import GIB
from advisor.pricing.machine import DEFAULT_PROVIDER, InstanceType
from advisor.pricing.providers import availability_service
from advisor.sizing.candidates import Candidate, candidates
from advisor.sizing.constraints import USABLE_MEMORY
from advisor.sizing.demand import MINIMUM_SECONDS, Demand, Preset
from advisor.sizing.layout import is_other_gpu
from advisor.sizing.other_gpus import rung_of
from rules.wording import write_count

KIND = "change_instance_type"
CORES_SPREAD, MEMORY_SPREAD = 0.20, 0.10
"""Variation between runs of a job (log). Our choice."""
EIGHT_TENTHS = 2.56
"""Standard deviations between the ends of an 80 % interval."""
SHOWN = 10


def change_instance_type(
    spending: Spending,
    demand: Demand | None,
    book: PriceBook,
    catalogue: Mapping[str, InstanceType],
    as_of: datetime,
    preset: Preset,
    fix: Recommendation | None,
) -> Recommendation | None:
    """Return the cheapest machine that fits the run, if it saves enough.

    Args:
        fix: the fix of the input pipeline, if it is recommended too. Then the machine must also
            pay and fit the faster run after the fix; if none does, it excludes the fix.
    """
    if demand is None or spending.cost_usd is None or demand.duration_seconds < MINIMUM_SECONDS:
        return None
    table = candidates(demand, book, catalogue, as_of, preset)
    switches = paying_switches(demand, table, spending.cost_usd)
    switch = switches[0] if switches else None
    if fix is not None:
        low, high = _recovered_shares(fix, spending)
        on = SwitchTerms(book, catalogue, as_of, preset)
        beside = (replace(each, after=switch_beside_fix(each, low, high, on)) for each in switches)
        switch = next((each for each in beside if each.after), switch)
    if switch is None:
        return None
    return _recommendation(switch, table, spending, fix)


def _recommendation(
    switch: Switch, table: list[Candidate], spending: Spending, fix: Recommendation | None
) -> Recommendation:
    saving = _saving(switch, spending.cost_usd or switch.cost_usd)
    excludes_fix = fix is not None and switch.after is None
    risk, dimension = _risk(switch)
    then = switch.then
    return Recommendation(
        kind=KIND,
        title=f"Run on {then.node_count} × {then.instance_type} instead of {_present(switch)}",
        change={"instance_type": then.instance_type, "node_count": then.node_count},
        saving_low_usd=saving.low,
        saving_usd=saving.mid,
        saving_high_usd=saving.high,
        monthly_saving_usd=spending.monthly_usd(saving, _rung(switch)),
        risk=risk,
        risk_dimension=dimension,
        effort=_effort(switch),
        evidence=_evidence(switch, excludes_fix),
        assumptions=_assumptions(switch),
        candidates=[c.to_document() for c in _shown(switch, table)],
        dedupe_key=KIND,
        rung=_rung(switch),
        how_to_apply=_how_to_apply(switch),
        risk_reason=_reason(switch, dimension),
        conflicts_with=[
            *([UNUSED_GPUS] if _gives_gpus_back(switch) else []),
            *([FIX_INPUT_PIPELINE] if excludes_fix else []),
        ],
        shares_after={FIX_INPUT_PIPELINE: switch.after.saved_share} if switch.after else {},
    )


def _present(switch: Switch) -> str:
    now = switch.now
    is_as_many = now.node_count == switch.then.node_count
    return now.instance_type if is_as_many else f"{now.node_count} × {now.instance_type}"


def _rung(switch: Switch) -> str:
    """Return how the speed on the machine is known."""
    then = switch.then
    return rung_of(switch.demand, switch.now.machine, then.machine, then.node_count)


def _gives_gpus_back(switch: Switch) -> bool:
    then = switch.then
    given = switch.demand.gpus * switch.demand.node_count
    return then.node_count * then.machine.gpu_count < given


def _saving(switch: Switch, cost_usd: Decimal) -> SavingRange:
    low, mid, high = (
        switch.cost_usd - (cost or switch.cost_usd)
        for cost in (switch.then.cost_high_usd, switch.then.cost_mid_usd, switch.then.cost_low_usd)
    )
    return SavingRange.clamp(cost_usd, low, mid, high)


def _risk(switch: Switch) -> tuple[float, str]:
    """Return the worst of these risks: too few cores, too little memory, so slow that it costs
    more.
    """
    machine, then, planned = switch.then.machine, switch.then, switch.at_most.planned
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


def _reason(switch: Switch, dimension: str) -> str:
    machine, then, planned = switch.then.machine, switch.then, switch.at_most.planned
    if dimension == "cores":
        busy = f"{planned.cores.mid:.1f} of {machine.vcpus} would be busy"
        return f"The cores may become too few: {busy}."
    if dimension == "memory":
        needed, usable = planned.memory_bytes / GIB, machine.memory_bytes * USABLE_MEMORY / GIB
        return f"The memory may run out: {needed:.1f} of {usable:.1f} usable GiB would be in use."
    highest = display_usd(then.cost_high_usd)
    return f"It may run slower than predicted, and then cost up to {highest} a run."


def _how_to_apply(switch: Switch) -> list[str]:
    then = switch.then
    check = [_how_to_check(then)] if then.to_check else []
    if switch.demand.service == "sagemaker_training":
        return [
            *check,
            "In the estimator, set:",
            f'instance_type="{then.instance_type}", instance_count={then.node_count}',
        ]
    return [*check, f"Start the next run on {then.node_count} × {then.instance_type}."]


def _how_to_check(then: Candidate) -> str:
    if then.machine.provider != DEFAULT_PROVIDER:
        return f"Check that {then.region or 'your region'} still offers {then.instance_type}."
    region = f" --region {then.region}" if then.region else ""
    return (
        f"Check that it is still offered: aws ec2 describe-instance-type-offerings{region} "
        f"--filters Name=instance-type,Values={then.machine.name}"
    )


def _effort(switch: Switch) -> str:
    is_same = switch.now.machine.family == switch.then.machine.family
    return "very_low" if is_same else "low"


def _recovered_shares(fix: Recommendation, spending: Spending) -> tuple[float, float]:
    """Return the share of time that the fix of the input pipeline saves: likely, and at most."""
    cost = spending.cost_usd
    if not cost:
        return 0.0, 0.0
    likely, most = fix.saving_usd or Decimal(0), fix.saving_high_usd or Decimal(0)
    return float(likely / cost), float(most / cost)


def _evidence(switch: Switch, excludes_fix: bool) -> list[str]:
    now, then, demand = switch.now, switch.then, switch.demand
    evidence = [
        f"{demand.cores_busy_p95:.1f} of {now.machine.vcpus} cores were busy (p95); "
        f"{then.instance_type} has {then.machine.vcpus}.",
        f"{demand.memory_p99_bytes / GIB:.1f} of {now.machine.memory_bytes / GIB:.0f} GiB of "
        f"memory were in use (p99); {then.instance_type} has "
        f"{then.machine.memory_bytes / GIB:.0f} GiB.",
        f"{then.instance_type} costs {display_usd(then.usd_per_hour)} per hour instead of "
        f"{display_usd(now.usd_per_hour)}.",
    ]
    if demand.gpus:
        evidence.append(_gpus(switch))
    if switch.after:
        evidence.append(_after_fix(switch.after))
    if excludes_fix:
        evidence.append(
            f"Not together with the fix of the input pipeline: the run after it would not fit on "
            f"{then.instance_type}, or cost no less there."
        )
    return evidence


def _gpus(switch: Switch) -> str:
    demand, then = switch.demand, switch.then
    given = demand.gpus * demand.node_count
    is_other = is_other_gpu(switch.now.machine, then.machine)
    model = f"model {then.machine.gpu_model}" if is_other else "the same model"
    left = f"{then.instance_type} has {then.machine.gpu_count} of {model}"
    if demand.gpu_use is None:
        were = "was" if given == 1 else "were"
        return f"{write_count(given, 'GPU')} {were} given to the run; {left}."
    if given == 1:
        return f"The GPU was {100 * demand.gpu_use.load:.0f} % busy; {left}."
    load = f"together as busy as {demand.gpu_use.load:.1f} full ones"
    return f"{demand.gpus_used} of {given} GPUs were in use, {load}; {left}."


def _after_fix(after: AfterFix) -> str:
    """Say what the machines hold if the input pipeline is fixed too."""
    planned, machine = after.then.planned, after.then.machine
    cores = f"{planned.cores.mid:.1f} of {machine.vcpus} cores"
    if planned.gpu_busy is None:
        return f"It is sized for the run after the input pipeline is fixed: {cores} busy."
    busy_pct = 100 * min(planned.gpu_busy, 1.0)
    return (
        f"It is sized for the run after the input pipeline is fixed: {cores} and "
        f"{busy_pct:.0f} % of {write_count(planned.gpus, 'GPU')} busy."
    )


def _assumptions(switch: Switch) -> list[str]:
    assumptions = [_nodes(switch)]
    if switch.then.planned.gpus < switch.demand.gpus_used:
        few = switch.then.planned.gpus
        assumptions.append(
            f"{write_count(few, 'GPU')} {'does' if few == 1 else 'do'} the work of "
            f"{switch.demand.gpus_used}. Keep the global batch, by accumulating gradients: another "
            "one may change the results."
        )
    if switch.is_other_processor and _rung(switch) != MEASURED:
        assumptions.append("The processor differs, and its speed on this job was not measured.")
    if switch.then.to_check:
        assumptions.append(f"{switch.then.instance_type}: {switch.then.to_check}.")
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


def _nodes(switch: Switch) -> str:
    before, after = switch.now.node_count, switch.then.node_count
    if before == after:
        return f"The number of nodes stays at {after}."
    return f"The work of {before} nodes is spread evenly over {after}."


def _shown(switch: Switch, table: Sequence[Candidate]) -> list[Candidate]:
    """Return the chosen machine, the present one, the cheapest others, then rejected machines that
    would be cheaper than now ("why not that one?"), nearest in the cost of a run first.
    """
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
