"""Buy the same machines in another way: spot, or EC2 instead of SageMaker."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from advisor.advice.recommendation import (
    SAME,
    Recommendation,
    RuleJudgement,
    Saving,
    Spending,
)
from advisor.money import display_usd
from advisor.pricing.book import PriceBook
from advisor.pricing.price import PriceKey
from advisor.pricing.providers import machine_name
from advisor.sizing.demand import Demand
from advisor.sizing.spot import (
    Interruptions,
    best_interval_seconds,
    break_even_discount,
    expected_seconds,
)

SPOT, EC2 = "buy_spot", "run_on_ec2"
MARGIN = Decimal("0.05")
MEAN_HOURS = (5.0, 24.0, 72.0)
"""Between two interruptions of a node: at worst, likely, at best. Nobody publishes it; ours."""
SAFE_SHARE = 0.5
"""Without checkpoints, a run of at most this share of the time between interruptions (ours)."""
SAGEMAKER, SPOT_OPTION = "sagemaker_training", "spot"


def buy_spot(
    judgements: Sequence[RuleJudgement],
    spending: Spending,
    demand: Demand | None,
    book: PriceBook,
    as_of: datetime,
) -> Recommendation | None:
    """If spot is cheaper although the run is interrupted, even if that happens often."""
    usd = _hourly(demand, book, as_of, purchase_option=SPOT_OPTION)
    if demand is None or usd is None or demand.purchase_option != "on_demand":
        return None
    now_usd, then_usd = usd
    checkpoint = _checkpoint_seconds(judgements)
    factors = [_slowdown(demand, hours, checkpoint) for hours in MEAN_HOURS]
    ratio = then_usd / now_usd
    costs = [ratio * Decimal(str(f)) if math.isfinite(f) else None for f in factors]
    saving = _saving(spending, costs)
    if saving is None:
        return None
    discount = f"{100 * (1 - ratio):.0f} %"
    evidence = [
        f"Spot costs {display_usd(then_usd)} per hour instead of {display_usd(now_usd)}: "
        f"{discount} less.",
        _pays_from(demand, checkpoint),
    ]
    return replace(
        _same_machine(SPOT, spending, saving),
        title=f"Buy {demand.node_count} × {demand.instance_type} as spot",
        change={"purchase_option": SPOT_OPTION},
        risk=round(4 * _interrupted(demand), 2),
        risk_dimension="interruptions",
        risk_reason=f"About {100 * _interrupted(demand):.0f} of 100 such runs are interrupted, and "
        "end later.",
        effort="low" if checkpoint is not None else "medium",
        evidence=evidence,
        assumptions=[
            f"A node is interrupted every {MEAN_HOURS[1]:.0f} h; at worst every "
            f"{MEAN_HOURS[0]:.0f} h.",
            "The run resumes from its last checkpoint by itself.",
        ],
        how_to_apply=_spot_steps(demand, checkpoint),
    )


def run_on_ec2(
    spending: Spending, demand: Demand | None, book: PriceBook, as_of: datetime
) -> Recommendation | None:
    """The same machines without SageMaker's premium."""
    if demand is None or demand.service != SAGEMAKER or demand.purchase_option != "on_demand":
        return None
    name = machine_name(demand.instance_type)
    usd = _hourly(demand, book, as_of, service="ec2", instance_type=name)
    if usd is None:
        return None
    now_usd, then_usd = usd
    saving = _saving(spending, [then_usd / now_usd] * 3)
    if saving is None:
        return None
    return replace(
        _same_machine(EC2, spending, saving),
        title=f"Run on EC2's {name} instead of SageMaker",
        change={"service": "ec2"},
        risk=0.8,
        risk_dimension="operation",
        risk_reason="You start, stop and patch the machines yourself; one left on costs more.",
        effort="high",
        evidence=[
            f"{name} costs {display_usd(then_usd)} per hour on EC2, {display_usd(now_usd)} on "
            "SageMaker."
        ],
        assumptions=["The machine stops when the training ends."],
        how_to_apply=[
            f"aws ec2 run-instances --instance-type {name} --count {demand.node_count} "
            "--instance-initiated-shutdown-behavior terminate --user-data file://train.sh",
            "train.sh: trimtab run --owns-machine -- python train.py; shutdown -h now",
        ],
    )


def _same_machine(kind: str, spending: Spending, saving: Saving) -> Recommendation:
    return Recommendation(
        kind=kind,
        title="",
        change={},
        saving_low_usd=saving.low,
        saving_usd=saving.mid,
        saving_high_usd=saving.high,
        monthly_saving_usd=spending.monthly_usd(saving),
        risk=0.0,
        risk_dimension="",
        effort="",
        evidence=[],
        assumptions=[],
        candidates=[],
        dedupe_key=kind,
        rung=SAME,
    )


def _hourly(
    demand: Demand | None, book: PriceBook, as_of: datetime, **other: str
) -> tuple[Decimal, Decimal] | None:
    """USD per hour of a node, now and otherwise; None: one of them has no price at `as_of`."""
    if demand is None:
        return None
    key = demand.price_key(demand.instance_type)
    found = [_usd_at(book, each, as_of) for each in (key, replace(key, **other))]
    now_usd, then_usd = found
    return None if not now_usd or not then_usd else (now_usd, then_usd)


def _usd_at(book: PriceBook, key: PriceKey, as_of: datetime) -> Decimal | None:
    priced = book.price_at(key, as_of)
    return None if priced is None or priced.later else priced.row.usd_per_hour


def _saving(spending: Spending, ratios: Sequence[Decimal | None]) -> Saving | None:
    """From costs relative to now: at worst, likely, at best. None: it doesn't clearly save."""
    cost = spending.cost_usd
    worst, likely, best = ratios
    if not cost or worst is None or likely is None or best is None:
        return None
    if worst >= 1 or likely > 1 - MARGIN:
        return None
    return Saving.of(cost, *(cost * (1 - ratio) for ratio in (worst, likely, best)))


def _checkpoint_seconds(judgements: Sequence[RuleJudgement]) -> float | None:
    """Of one recorded checkpoint; None: none was recorded."""
    numbers = next((j.numbers for j in judgements if j.rule_id == "checkpoint_interval"), None)
    return numbers.known("checkpoint_seconds") if numbers else None


def _slowdown(demand: Demand, mean_hours: float, checkpoint: float | None) -> float:
    """The expected time over today's. Without checkpoints, an interrupted run starts again."""
    of = Interruptions.of_nodes(3600 * mean_hours, demand.node_count, checkpoint or 0.0)
    seconds = max(demand.duration_seconds, 1.0)
    if checkpoint is None and seconds > SAFE_SHARE * of.mean_seconds:
        return math.inf
    interval = seconds if checkpoint is None else best_interval_seconds(of)
    return max(expected_seconds(seconds, interval, of) / seconds, 1.0)


def _interrupted(demand: Demand) -> float:
    """The probability that a run is interrupted."""
    mean = 3600 * MEAN_HOURS[1] / demand.node_count
    return 1 - math.exp(-demand.duration_seconds / mean)


def _pays_from(demand: Demand, checkpoint: float | None) -> str:
    if checkpoint is None:
        return "No checkpoint was recorded; the run is short enough to start again."
    of = Interruptions.of_nodes(3600 * MEAN_HOURS[1], demand.node_count, checkpoint)
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
