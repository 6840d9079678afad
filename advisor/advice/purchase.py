"""Buy the same machines in another way: spot, EC2 instead of SageMaker, or in another region."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from advisor.advice.recommendation import (
    SAME,
    Recommendation,
    RuleJudgement,
    SavingRange,
    Spending,
)
from advisor.money import display_usd
from advisor.pricing.availability import Availability, availability
from advisor.pricing.book import PriceBook
from advisor.pricing.machine import InstanceType
from advisor.pricing.price import PriceKey, PriceRow
from advisor.pricing.providers import machine_name
from advisor.sizing.demand import Demand
from advisor.sizing.interruptions import InterruptionRate
from advisor.sizing.spot import (
    Interruptions,
    best_interval_seconds,
    break_even_discount,
    expected_seconds,
)

SPOT, EC2, REGION, COMMIT = "buy_spot", "run_on_ec2", "other_region", "commit"
MARGIN = Decimal("0.05")
MOST_REGIONS = 3
"""The most regions that are named beside the cheapest one."""
MEAN_HOURS = (5.0, 24.0, 72.0)
"""The mean hours between two interruptions of a node: at worst, likely, at best. Nobody publishes
it; ours."""
SAFE_SHARE = 0.5
"""The longest run without checkpoints, as a share of the time between interruptions (ours)."""
SAGEMAKER = "sagemaker_training"
ON_DEMAND, SPOT_OPTION, RESERVED = "on_demand", "spot", "reserved"


def buy_spot(
    judgements: Sequence[RuleJudgement],
    spending: Spending,
    demand: Demand | None,
    book: PriceBook,
    as_of: datetime,
    seen: InterruptionRate | None = None,
) -> Recommendation | None:
    """Recommend spot if it is cheaper although the run is interrupted, even if that happens often.

    Args:
        seen: how often spot machines like the run's are interrupted; None: `MEAN_HOURS`.
    """
    usd = hourly(demand, book, as_of, purchase_option=SPOT_OPTION)
    if demand is None or usd is None or demand.purchase_option != ON_DEMAND:
        return None
    checkpoint = checkpoint_seconds(judgements)
    hours = (seen.worst_hours, seen.hours, seen.best_hours) if seen else MEAN_HOURS
    likely = hours[1]
    interrupted = _interrupted(demand, likely)
    factors = [_slowdown(demand, each, checkpoint) for each in hours]
    costs = [usd.ratio * Decimal(str(f)) if math.isfinite(f) else None for f in factors]
    saving = _saving(spending, costs)
    if saving is None:
        return None
    discount = f"{100 * (1 - usd.ratio):.0f} %"
    evidence = [
        f"Spot costs {display_usd(usd.then_usd)} per hour instead of {display_usd(usd.now_usd)}: "
        f"{discount} less.",
        _pays_from(demand, likely, checkpoint),
        *([seen.words] if seen else []),
    ]
    return same_machine(
        SPOT,
        spending,
        saving,
        title=f"Buy {demand.node_count} × {demand.instance_type} as spot",
        change={"purchase_option": SPOT_OPTION},
        risk=round(4 * interrupted, 2),
        risk_dimension="interruptions",
        risk_reason=f"About {100 * interrupted:.0f} of 100 such runs are interrupted, and "
        "end later.",
        effort="low" if checkpoint is not None else "medium",
        evidence=evidence,
        assumptions=[
            f"A node is interrupted every {likely:.3g} h; at worst every {hours[0]:.3g} h"
            f"{'' if seen else ', since too little was seen of spot machines here'}.",
            "The run resumes from its last checkpoint by itself.",
        ],
        how_to_apply=_spot_steps(demand, checkpoint),
        conflicts_with=[COMMIT],
    )


def run_on_ec2(
    spending: Spending, demand: Demand | None, book: PriceBook, as_of: datetime
) -> Recommendation | None:
    """Recommend the same machines without SageMaker's premium."""
    if demand is None or demand.service != SAGEMAKER or demand.purchase_option != ON_DEMAND:
        return None
    name = machine_name(demand.instance_type)
    usd = hourly(demand, book, as_of, service="ec2", instance_type=name)
    if usd is None:
        return None
    saving = _saving(spending, [usd.ratio] * 3)
    if saving is None:
        return None
    return same_machine(
        EC2,
        spending,
        saving,
        title=f"Run on EC2's {name} instead of SageMaker",
        change={"service": "ec2"},
        risk=0.8,
        risk_dimension="operation",
        risk_reason="You start, stop and patch the machines yourself; one left on costs more.",
        effort="high",
        evidence=[
            f"{name} costs {display_usd(usd.then_usd)} per hour on EC2, "
            f"{display_usd(usd.now_usd)} on "
            "SageMaker."
        ],
        assumptions=["The machine stops when the training ends.", *usd.assumptions],
        how_to_apply=[
            f"aws ec2 run-instances --instance-type {name} --count {demand.node_count} "
            "--instance-initiated-shutdown-behavior terminate --user-data file://train.sh",
            "train.sh: trimtab run --owns-machine -- python train.py; shutdown -h now",
        ],
    )


def run_in_region(
    spending: Spending,
    demand: Demand | None,
    book: PriceBook,
    as_of: datetime,
    regions: Mapping[str, Mapping[str, InstanceType]],
) -> Recommendation | None:
    """Recommend the same machines in the allowed region where they cost least.

    Args:
        regions: -> the types offered there.
    """
    if demand is None or not demand.region or demand.purchase_option == RESERVED:
        return None
    offered = {
        region: found
        for region, types in regions.items()
        if region != demand.region
        and _availability(demand, region, types, book, as_of).is_offered
        and (found := hourly(demand, book, as_of, region=region))
    }
    region = min(offered, key=lambda name: (offered[name].then_usd, name), default="")
    saving = _saving(spending, [offered[region].ratio] * 3) if region else None
    if saving is None:
        return None
    usd = offered[region]
    to_check = _availability(demand, region, regions[region], book, as_of).to_check
    machines = f"{demand.node_count} × {demand.instance_type}"
    return same_machine(
        REGION,
        spending,
        saving,
        title=f"Run {machines} in {region} instead of {demand.region}",
        change={"region": region},
        risk=0.8,
        risk_dimension="data",
        risk_reason="The data has to be there too: reading it from afar slows the training and is "
        "charged, and some data may not leave its region.",
        effort="medium",
        evidence=[
            f"{demand.instance_type} costs {display_usd(usd.then_usd)} per hour in {region}, "
            f"{display_usd(usd.now_usd)} in {demand.region}.",
            *_dearer(offered, region),
        ],
        assumptions=[
            "The transfer of the data isn't counted.",
            "The speed is the same there.",
            *([f"{demand.instance_type}: {to_check}."] if to_check else []),
            *usd.assumptions,
        ],
        how_to_apply=_region_steps(demand, region),
    )


def same_machine(kind: str, spending: Spending, saving: SavingRange, **said: Any) -> Recommendation:
    """Return a recommendation to pay less for the same machine; `said`: the rest of its fields."""
    return Recommendation(
        kind=kind,
        saving_low_usd=saving.low,
        saving_usd=saving.mid,
        saving_high_usd=saving.high,
        monthly_saving_usd=spending.monthly_usd(saving, SAME),
        candidates=[],
        dedupe_key=kind,
        rung=SAME,
        **said,
    )


@dataclass(frozen=True)
class Hourly:
    """USD per hour of a node, now and otherwise."""

    now_usd: Decimal
    then_usd: Decimal
    is_estimated: bool

    @property
    def ratio(self) -> Decimal:
        return self.then_usd / self.now_usd

    @property
    def assumptions(self) -> list[str]:
        return ["The price is estimated."] if self.is_estimated else []


def hourly(demand: Demand | None, book: PriceBook, as_of: datetime, **other: str) -> Hourly | None:
    """Return what a node costs now, and with the other fields of the price's key; None if one of
    them has no price at `as_of`.
    """
    if demand is None:
        return None
    key = demand.price_key(demand.instance_type)
    now, then = (_row_at(book, each, as_of) for each in (key, replace(key, **other)))
    if not now or not then or not now.usd_per_hour or not then.usd_per_hour:
        return None
    return Hourly(now.usd_per_hour, then.usd_per_hour, now.estimated or then.estimated)


def _row_at(book: PriceBook, key: PriceKey, as_of: datetime) -> PriceRow | None:
    priced = book.price_at(key, as_of)
    return None if priced is None or priced.later else priced.row


def _saving(spending: Spending, ratios: Sequence[Decimal | None]) -> SavingRange | None:
    """Return the saving from costs relative to now: at worst, likely, at best. None if it doesn't
    clearly save.
    """
    cost = spending.cost_usd
    worst, likely, best = ratios
    if not cost or worst is None or likely is None or best is None:
        return None
    if worst >= 1 or likely > 1 - MARGIN:
        return None
    return SavingRange.clamp(cost, *(cost * (1 - ratio) for ratio in (worst, likely, best)))


def checkpoint_seconds(judgements: Sequence[RuleJudgement]) -> float | None:
    """Return the seconds of one recorded checkpoint, or None if none was recorded."""
    numbers = next((j.numbers for j in judgements if j.rule_id == "checkpoint_interval"), None)
    return numbers.get("checkpoint_seconds") if numbers else None


def _slowdown(demand: Demand, mean_hours: float, checkpoint: float | None) -> float:
    """Return the expected time divided by today's. Without checkpoints, an interrupted run starts
    again.
    """
    of = Interruptions.of_nodes(3600 * mean_hours, demand.node_count, checkpoint or 0.0)
    seconds = max(demand.duration_seconds, 1.0)
    if checkpoint is None and seconds > SAFE_SHARE * of.mean_seconds:
        return math.inf
    interval = seconds if checkpoint is None else best_interval_seconds(of)
    return max(expected_seconds(seconds, interval, of) / seconds, 1.0)


def _interrupted(demand: Demand, mean_hours: float) -> float:
    """Return the probability that a run is interrupted."""
    mean = 3600 * mean_hours / demand.node_count
    return 1 - math.exp(-demand.duration_seconds / mean)


def _pays_from(demand: Demand, mean_hours: float, checkpoint: float | None) -> str:
    if checkpoint is None:
        return "No checkpoint was recorded; the run is short enough to start again."
    of = Interruptions.of_nodes(3600 * mean_hours, demand.node_count, checkpoint)
    least = break_even_discount(demand.duration_seconds, of)
    best = best_interval_seconds(of)
    return (
        f"With checkpoints of {checkpoint:.0f} s every {best / 60:.0f} min, it pays from a "
        f"discount of {100 * least:.0f} % on."
    )


def _spot_steps(demand: Demand, checkpoint: float | None) -> list[str]:
    wait = round(2 * demand.duration_seconds)
    steps = [] if checkpoint is not None else ["Save checkpoints, and resume from the last one."]
    if demand.service == SAGEMAKER:
        return [
            *steps,
            f"Estimator(use_spot_instances=True, max_run={wait}, max_wait={2 * wait}, "
            'checkpoint_s3_uri="s3://BUCKET/checkpoints")',
        ]
    return [*steps, "aws ec2 run-instances --instance-market-options MarketType=spot ..."]


def _availability(
    demand: Demand,
    region: str,
    types: Mapping[str, InstanceType],
    book: PriceBook,
    as_of: datetime,
) -> Availability:
    """Judge the run's machine in another region, of which the run itself shows nothing."""
    machine = types.get(demand.instance_type)
    if machine is None:
        return Availability(False, "its hardware isn't known")
    key = replace(demand.price_key(demand.instance_type), region=region)
    row = _row_at(book, key, as_of)
    return availability(machine, as_of.date(), row.seen_at.date() if row and row.seen_at else None)


def _dearer(offered: Mapping[str, Hourly], chosen: str) -> list[str]:
    others = sorted((usd.then_usd, name) for name, usd in offered.items() if name != chosen)
    words = [f"{name} {display_usd(usd)}" for usd, name in others[:MOST_REGIONS]]
    return [f"In other allowed regions: {', '.join(words)}."] if words else []


def _region_steps(demand: Demand, region: str) -> list[str]:
    copied = f"aws s3 sync s3://BUCKET s3://BUCKET-{region} --source-region {demand.region} "
    if demand.service == SAGEMAKER:
        return [
            f"{copied}--region {region}",
            f'session = sagemaker.Session(boto3.Session(region_name="{region}"))',
            f"Estimator(sagemaker_session=session, ...)  # data from s3://BUCKET-{region}",
        ]
    if demand.service == "ec2":
        return [
            f"{copied}--region {region}",
            f"aws ec2 run-instances --region {region} --instance-type {demand.instance_type} "
            f"--count {demand.node_count} ...",
        ]
    return [f"Copy the data to {region}.", f"Start the next run there, on {demand.instance_type}."]
