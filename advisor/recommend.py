"""Recommendations with savings and risk: one best action for each cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal

from advisor.advice.buying import AS_NOW, Buying, buy_differently
from advisor.advice.causes import RootCause, causes
from advisor.advice.checkpointing import RULES as SAVE_RULES
from advisor.advice.checkpointing import save_interval
from advisor.advice.fixes import fixes, share_of_time
from advisor.advice.input_pipeline import KIND as FIX_INPUT_PIPELINE
from advisor.advice.input_pipeline import fix_input_pipeline
from advisor.advice.instance_type import KIND as CHANGE_INSTANCE_TYPE
from advisor.advice.instance_type import change_instance_type
from advisor.advice.kinds import CHECKPOINTS, FULL_PRECISION, KINDS
from advisor.advice.order import counted_saving_usd, drop_conflicts, joint_saving_usd
from advisor.advice.precision import mixed_precision
from advisor.advice.probe import probe
from advisor.advice.recommendation import SAME, Recommendation, RuleJudgement, Spending
from advisor.advice.sharing import share_gpu
from advisor.costing.recoverable import RecoverablePart
from advisor.money import display_usd
from advisor.pricing.book import PriceBook
from advisor.pricing.machine import InstanceType
from advisor.probing.loop_speed import LoopSpeed
from advisor.sizing.demand import BALANCED, Demand, Preset
from advisor.sizing.gpu_use import gpu_use
from advisor.sizing.interruptions import InterruptionRate
from advisor.sizing.other_gpus import SpeedEvidence, speeds, sure_speeds
from advisor.sizing.pace import pace

LEAK = "host_memory_leak"
HIDING_SHARE = 0.25
"""The share of the time from which on stalls hide what machine the run needs (ours)."""
NO_EVIDENCE = SpeedEvidence()
__all__ = ["AdvisedRun", "Market", "Recommendation", "RuleJudgement", "recommend", "with_gpus"]


@dataclass(frozen=True)
class AdvisedRun:
    """A run with what its analysis found.

    Attributes:
        demand: its resource use; None if it wasn't measured or its nodes differ. Then no other
            machine is recommended, nor while the run's memory grows without end.
        spending: without a price no saving in money is given. Of the recent runs of the job it
            holds those that have a price, this one included.
        speed: of the training loop; None: not measured.
        interrupted: how often a node like the run's is; None: too little is known.
        recovered: what a fix of each finding gives back, by rule.
    """

    judgements: Sequence[RuleJudgement]
    demand: Demand | None
    spending: Spending
    speed: LoopSpeed | None = None
    interrupted: InterruptionRate | None = None
    recovered: Mapping[str, RecoverablePart] = field(default_factory=dict)


@dataclass(frozen=True)
class Market:
    """The machines that may be had.

    Attributes:
        as_of: the time whose prices and availability count; aware.
        may_buy: other ways and regions in which the workspace may buy the same machines.
    """

    book: PriceBook
    catalogue: Mapping[str, InstanceType]
    as_of: datetime
    may_buy: Buying = AS_NOW


def recommend(
    run: AdvisedRun,
    market: Market,
    evidence: SpeedEvidence = NO_EVIDENCE,
    preset: Preset = BALANCED,
) -> list[Recommendation]:
    """Return the recommendations from one run, in the order in which to follow them.

    Each saving is for that change alone; `advice.order.joint_saving_usd` tells what several save.

    Args:
        evidence: what probes and other jobs tell about the speed on other machines.
    """
    judgements, demand, spending, speed = run.judgements, run.demand, run.spending, run.speed
    book, catalogue, as_of = market.book, market.catalogue, market.as_of
    found = causes(judgements, run.recovered)
    loader = fix_input_pipeline(found, spending, demand, catalogue)
    nodes = demand.node_count if demand else 1
    saved = save_interval(judgements, found, spending, nodes, speed, run.interrupted)
    answered = SAVE_RULES if saved else ()
    rest = {rule: cause for rule, cause in found.items() if rule not in answered}
    others = fixes(rest, KINDS, spending)
    change = measure = shared = None
    if demand is not None and not _hides_needs(found, spending):
        needed = replace(demand, machine_speeds=evidence.machines)
        used = with_gpus(needed, judgements, catalogue, evidence, speed)
        shared = share_gpu(spending, used, speed, catalogue, preset)
        change = change_instance_type(spending, used, book, catalogue, as_of, preset, loader)
        if change is None or change.rung != SAME:
            measure = probe(spending, used, book, catalogue, as_of, preset, evidence)
    bought = buy_differently(judgements, spending, demand, book, as_of, market.may_buy)
    told = FULL_PRECISION in found
    faster = None if told else mixed_precision(judgements, spending, speed)
    kept = [each for each in (loader, saved, *others, faster, shared, *bought) if each is not None]
    ordered = _in_order([*kept, *([change] if change else [])], spending.cost_usd)
    if spending.cost_usd is None:
        ordered = _by_time(ordered, found)
    return ordered if measure is None else _with_probe(ordered, measure)


def _with_probe(ordered: list[Recommendation], measure: Recommendation) -> list[Recommendation]:
    """Insert the probe by what it saves at least. It excludes another machine, yet both are shown:
    a switch that is sure, and what may be found beyond it."""
    least = counted_saving_usd(measure)
    before = [each for each in ordered if counted_saving_usd(each) >= least]
    return [*before, measure, *(each for each in ordered if each not in before)]


def with_gpus(
    demand: Demand,
    judgements: Sequence[RuleJudgement],
    catalogue: Mapping[str, InstanceType],
    evidence: SpeedEvidence,
    speed: LoopSpeed | None = None,
    only_sure: bool = True,
) -> Demand:
    """Return the demand with the use of its GPUs, and its speed on others: those that are known
    well enough to switch, or all.
    """
    if not demand.gpus:
        return demand
    variation = speed.step_variation if speed else None
    used = replace(demand, gpu_use=gpu_use(judgements), pace=pace(judgements, variation))
    known = speeds(used, catalogue, evidence)
    return replace(used, gpu_speeds=sure_speeds(known) if only_sure else known)


def _hides_needs(found: Mapping[str, RootCause], spending: Spending) -> bool:
    """Return whether what the run used says too little about the machine that it needs: its memory
    grows without end, or it spends much of its time on something that no core or GPU makes faster.
    """
    stalls = (cause for rule, cause in found.items() if rule in _MACHINE_INDEPENDENT)
    lost = sum(cause.seconds_high for cause in stalls)
    return LEAK in found or share_of_time(lost, spending) >= HIDING_SHARE


_MACHINE_INDEPENDENT = frozenset(rule for rule, fix in KINDS.items() if fix.kind == CHECKPOINTS) | {
    "hung",
    "slow_restart",
    "restart_loop",
}


def _in_order(advised: list[Recommendation], cost_usd: Decimal | None) -> list[Recommendation]:
    """Return the best action for each cause, by what it saves: as pages, mails and the API show
    them, too."""
    shown = [_with_alternatives(each, advised) for each in drop_conflicts(advised)]
    return _on_one_scale(shown, cost_usd) if cost_usd else shown


def _by_time(advised: list[Recommendation], found: Mapping[str, RootCause]) -> list[Recommendation]:
    """Sort by the time that each saves, of a run without a price."""

    def most_seconds(each: Recommendation) -> float:
        return max((found[rule].seconds_high for rule in each.rules if rule in found), default=0.0)

    return sorted(advised, key=most_seconds, reverse=True)


def _on_one_scale(ordered: list[Recommendation], cost_usd: Decimal) -> list[Recommendation]:
    """Say of the loader's fix and the other machine what each and both save, in their order."""
    pair = [each for each in ordered if each.kind in _NAMES]
    if len(pair) < 2:
        return ordered
    alone = [f"{_NAMES[each.kind]} alone saves {display_usd(each.saving_usd)}" for each in pair]
    both = display_usd(joint_saving_usd(pair, cost_usd))
    said = f"Of {display_usd(cost_usd)} a run, {', '.join(alone)}, both save {both}."
    return [
        replace(each, evidence=[*each.evidence, said]) if each in pair else each for each in ordered
    ]


_NAMES = {FIX_INPUT_PIPELINE: "the loader's fix", CHANGE_INSTANCE_TYPE: "the other machine"}


def _with_alternatives(kept: Recommendation, advised: list[Recommendation]) -> Recommendation:
    """Return the recommendation, and say in its evidence what was left out in its favour."""
    others = [
        f"Or: {other.title} (saves about {display_usd(other.saving_usd)} instead)."
        for other in advised
        if other.dedupe_key in kept.conflicts_with or kept.dedupe_key in other.conflicts_with
    ]
    return replace(kept, evidence=[*kept.evidence, *others])
