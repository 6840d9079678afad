"""Measure this first: machines with another GPU that may pay, and how to find out.

Predicted speeds are wrong too often to switch by them. A probe runs the same command there for some
steps, and says.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal

from advisor.advice.instance_type import KIND as CHANGE_INSTANCE_TYPE
from advisor.advice.recommendation import HISTORY, PRIOR, Recommendation, SavingRange, Spending
from advisor.money import display_usd
from advisor.pricing.book import PriceBook
from advisor.pricing.machine import InstanceType
from advisor.sizing.candidates import Candidate
from advisor.sizing.demand import Demand, Preset
from advisor.sizing.other_gpus import Offers, SpeedEvidence, offers
from advisor.speed.decision import PROBE, Cost, Decision, decide

KIND = "probe"
STEPS = 200
MOST_SECONDS = 1800
"""Start-up, warm-up and the steps; then the probe is stopped (ours)."""
COMMAND = f"trimtab probe --steps {STEPS} -- python train.py"


def probe(
    spending: Spending,
    demand: Demand | None,
    book: PriceBook,
    catalogue: Mapping[str, InstanceType],
    as_of: datetime,
    preset: Preset,
    evidence: SpeedEvidence,
) -> Recommendation | None:
    """Recommend at most two machines to measure, if what that finds is worth more than it costs.

    It is worth its share of what the job cost in the last 30 days.
    """
    month_usd = sum(spending.recent_costs_usd, Decimal(0))
    if demand is None or not demand.gpus_used or not spending.cost_usd or not month_usd:
        return None
    offered = offers(demand, book, catalogue, as_of, preset, evidence)
    if offered is None:
        return None
    costs = [_cost(offered, number, month_usd) for number in range(len(offered.candidates))]
    advice = decide(offered.prediction, costs, preset.slowdown_limit, evidence.rounds)
    if advice.kind != PROBE or advice.saving <= 0:
        return None
    return _recommendation(advice, offered, spending, demand)


def probe_usd(offered: Offers, number: int) -> Decimal:
    """Return the most that a probe of a candidate can cost."""
    return offered.hourly_usd(number) * MOST_SECONDS / 3600


def _cost(offered: Offers, number: int, month_usd: Decimal) -> Cost:
    per_hour = offered.hourly_usd(number) / offered.present_usd_per_hour
    return Cost(float(per_hour), float(probe_usd(offered, number) / month_usd))


def _recommendation(
    advice: Decision, offered: Offers, spending: Spending, demand: Demand
) -> Recommendation:
    saving = _saving(advice, offered, spending)
    odds = advice.odds or 0.0
    chosen = [offered.candidates[number] for number in advice.targets]
    most_usd = sum((probe_usd(offered, number) for number in advice.targets), Decimal(0))
    names = " and ".join(f"{each.node_count} × {each.instance_type}" for each in chosen)
    rungs = {offered.prediction.speeds[number].rung for number in advice.targets}
    rung = HISTORY if rungs == {HISTORY} else PRIOR
    return Recommendation(
        kind=KIND,
        title=f"Measure this first: {names}",
        change={"probe": [each.instance_type for each in chosen]},
        saving_low_usd=saving.low,
        saving_usd=saving.mid,
        saving_high_usd=saving.high,
        monthly_saving_usd=spending.monthly_usd(saving, rung),
        risk=round(4 * (1 - odds), 2),
        risk_dimension="speed",
        risk_reason=f"The chance that none of them is cheaper is {100 * (1 - odds):.0f} %. "
        f"Measuring costs at most {display_usd(most_usd)} in any case.",
        effort="low",
        evidence=_evidence(advice, offered, most_usd),
        assumptions=[
            "Speeds are predicted from public measurements and data sheets; no switch is advised "
            "before one is measured.",
            "The saving is the expected value: 0 if none is cheaper, less the cost of measuring.",
            f"As many GPUs as the run used: {demand.gpus_used}.",
        ],
        candidates=[each.to_document() for each in chosen],
        dedupe_key=KIND,
        conflicts_with=[CHANGE_INSTANCE_TYPE],
        rung=rung,
        how_to_apply=[line for each in chosen for line in _steps(each, demand)],
    )


def _saving(advice: Decision, offered: Offers, spending: Spending) -> SavingRange:
    """Return the saving on a run: nothing if no machine pays; likely what is expected of measuring;
    at best the most that the fast end of an interval allows.
    """
    cost = spending.cost_usd or Decimal(0)
    likely = cost * Decimal(str(advice.saving))
    best = max(_best_share(offered, number) for number in advice.targets)
    return SavingRange.clamp(cost, Decimal(0), likely, max(cost * best, likely))


def _best_share(offered: Offers, number: int) -> Decimal:
    fastest = Decimal(str(offered.prediction.speeds[number].high()))
    return 1 - offered.hourly_usd(number) / offered.present_usd_per_hour / fastest


def _evidence(advice: Decision, offered: Offers, most_usd: Decimal) -> list[str]:
    lines = []
    for number in advice.targets:
        chosen, speed = offered.candidates[number], offered.prediction.speeds[number]
        lines.append(
            f"{chosen.machine.gpu_model} ({chosen.instance_type}): {speed.low():.1f} to "
            f"{speed.high():.1f} times the speed (80 %), at "
            f"{display_usd(offered.hourly_usd(number))} per hour instead of "
            f"{display_usd(offered.present_usd_per_hour)}."
        )
    return [
        *lines,
        f"The chance that one of them is cheaper is {100 * (advice.odds or 0.0):.0f} %.",
        f"Measuring costs at most {display_usd(most_usd)}: {MOST_SECONDS // 60} min each.",
    ]


def _steps(chosen: Candidate, demand: Demand) -> list[str]:
    name, count = chosen.instance_type, chosen.node_count
    if demand.service == "sagemaker_training":
        return [
            f'Estimator(instance_type="{name}", instance_count={count}, max_run={MOST_SECONDS}, '
            "...)",
            f"In the entry point: {COMMAND}",
        ]
    if demand.service == "ec2":
        return [
            f"aws ec2 run-instances --instance-type {name} --count {count} "
            "--instance-initiated-shutdown-behavior terminate --user-data file://probe.sh",
            f"probe.sh: timeout {MOST_SECONDS} {COMMAND}; shutdown -h now",
            f"Slurm: srun -N {count} --time={MOST_SECONDS // 60} --constraint={name} {COMMAND}",
        ]
    return [f"On {count} × {name}: timeout {MOST_SECONDS} {COMMAND}"]
