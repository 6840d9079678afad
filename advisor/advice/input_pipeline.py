"""Fix the input pipeline, so that training no longer waits for data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from advisor.advice.recommendation import Recommendation, RuleJudgement, Saving, Spending
from advisor.advice.recommendation import risk_of_more_than as risk_of
from advisor.money import display_usd
from advisor.pricing.catalogue import InstanceType
from advisor.sizing.demand import Demand

KIND = "fix_input_pipeline"
RULE = "input_bound"
CORES_SPREAD = 0.2
"""Variation of the number of busy cores from run to run (log). Our choice."""
RISK_UNMEASURED = 2.0
EFFORT = "medium"
"""In 400 jobs with low utilisation, small changes to code or scripts removed 85 % of the causes
(Gao et al., ICSE 2024). Still, code has to change."""


def fix_input_pipeline(
    judgements: Sequence[RuleJudgement],
    spending: Spending,
    demand: Demand | None,
    catalogue: Mapping[str, InstanceType],
) -> Recommendation | None:
    """The recommendation, if the rule fired."""
    judged = next((j for j in judgements if j.rule_id == RULE and j.verdict.state == "fired"), None)
    if judged is None or spending.duration_seconds <= 0:
        return None
    verdict = judged.verdict
    low, high = verdict.waste_seconds_low, verdict.waste_seconds_high
    saving = _saving(spending, low, high)
    risk, dimension = _risk(demand, catalogue, share_of_time(spending, high))
    return Recommendation(
        kind=KIND,
        title="Load data in parallel and ahead of the training loop",
        change={"input_pipeline": "parallel and prefetching"},
        saving_low_usd=saving.low if saving else None,
        saving_usd=saving.mid if saving else None,
        saving_high_usd=saving.high if saving else None,
        monthly_saving_usd=spending.monthly_usd(saving),
        risk=risk,
        risk_dimension=dimension,
        effort=EFFORT,
        evidence=_evidence(judged, spending, saving),
        assumptions=_assumptions(demand),
        candidates=[],
        dedupe_key=KIND,
    )


def share_of_time(spending: Spending, waste_seconds: float) -> float:
    """0 to 1."""
    return min(max(waste_seconds / spending.duration_seconds, 0.0), 1.0)


def cores_after_fix(cores_busy: float, recovered_share: float) -> float:
    """Doing the same work in less time keeps more cores busy."""
    return cores_busy / max(1 - recovered_share, 0.01)


def _saving(spending: Spending, low: float, high: float) -> Saving | None:
    if spending.cost_usd is None:
        return None
    at_least, at_most = (
        spending.cost_usd * Decimal(str(share_of_time(spending, seconds)))
        for seconds in (low, high)
    )
    return Saving.of(spending.cost_usd, at_least, (at_least + at_most) / 2, at_most)


def _risk(
    demand: Demand | None, catalogue: Mapping[str, InstanceType], recovered_share: float
) -> tuple[float, str]:
    """The risk that the machine has too few cores to load as fast as the loop then trains."""
    machine = catalogue.get(demand.instance_type) if demand else None
    if demand is None or machine is None:
        return RISK_UNMEASURED, "cores (not measured)"
    after = cores_after_fix(demand.cores_busy_p95, recovered_share)
    return risk_of(machine.vcpus, after, CORES_SPREAD), "cores"


def _evidence(judged: RuleJudgement, spending: Spending, saving: Saving | None) -> list[str]:
    verdict = judged.verdict
    seconds = f"{verdict.waste_seconds_low:.0f} to {verdict.waste_seconds_high:.0f} s"
    evidence = [
        verdict.summary,
        f"A fix saves {seconds} of the run's {spending.duration_seconds:.0f} s.",
    ]
    if saving is not None:
        money = f"{display_usd(saving.low)} to {display_usd(saving.high)}"
        evidence.append(
            f"At the run's price, that saves {money} of {display_usd(spending.cost_usd)}."
        )
    return evidence


def _assumptions(demand: Demand | None) -> list[str]:
    assumptions = ["Cost is proportional to time.", "The amount of work stays the same."]
    if demand is not None:
        assumptions.append(f"The run stays on {demand.node_count} × {demand.instance_type}.")
    return assumptions
