"""Let several runs of a job share GPUs that none of them fills."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal

from advisor.advice.instance_type import KIND as CHANGE_INSTANCE_TYPE
from advisor.advice.kinds import RAISE_BATCH
from advisor.advice.probe import KIND as PROBE
from advisor.advice.recommendation import PRIOR, Recommendation, SavingRange, Spending
from advisor.pricing.catalogue import GIB
from advisor.pricing.gpus import gpu_models
from advisor.pricing.machine import InstanceType
from advisor.probing.loop_speed import GPU, LoopSpeed
from advisor.sizing.constraints import USABLE_MEMORY
from advisor.sizing.demand import Demand, Preset
from advisor.speed.data_sheets import data_sheet
from advisor.speed.slices import log_kept

KIND = "share_gpu"
MOST_BUSY = 0.8
"""The highest sum of utilisations at which none of one set of public measurements of jobs that
share a GPU slows down."""
LOSING_PCT = 25
"""The number of 100 pairs, on another set, that may take longer together than one after the
other."""
MOST_RUNS = 4
KEPT_ON_SLICE = 0.9
"""The least share of its speed that a run keeps on a MIG slice, to be worth naming (ours)."""


def share_gpu(
    spending: Spending,
    demand: Demand | None,
    speed: LoopSpeed | None,
    catalogue: Mapping[str, InstanceType],
    preset: Preset,
) -> Recommendation | None:
    """Recommend to measure it first, as pairs that fit may lose all the same. Return None if two
    runs don't fit, or what one needs isn't known, or the job has one run a month, or the loader
    sets the pace.
    """
    machine = catalogue.get(demand.instance_type) if demand else None
    if demand is None or machine is None or speed is None or speed.pace != GPU:
        return None
    if not spending.cost_usd or len(spending.recent_costs_usd) < 2:
        return None
    count = _fitting(demand, speed, machine, preset)
    if count < 2:
        return None
    cost = spending.cost_usd
    best = cost * (1 - Decimal(1) / count)
    likely = best * (100 - LOSING_PCT) / 100
    saving = SavingRange.clamp(cost, Decimal(0), likely, best)
    return Recommendation(
        kind=KIND,
        title=f"Measure this first: {count} runs at once on each {demand.instance_type}",
        change={"runs_at_once": count},
        saving_low_usd=saving.low,
        saving_usd=saving.mid,
        saving_high_usd=saving.high,
        monthly_saving_usd=spending.monthly_usd(saving, PRIOR),
        risk=round(4 * LOSING_PCT / 100, 2),
        risk_dimension="speed",
        risk_reason=f"Up to {LOSING_PCT} of 100 pairs that fit took longer together than one "
        "after the other. If one run fails, its memory may be the other's loss.",
        effort="medium",
        evidence=_evidence(demand, speed, machine, count),
        assumptions=["The job has runs that can wait for each other."],
        candidates=[],
        dedupe_key=KIND,
        conflicts_with=[CHANGE_INSTANCE_TYPE, PROBE, RAISE_BATCH],
        rung=PRIOR,
        how_to_apply=_steps(speed, machine, count),
    )


def _fitting(demand: Demand, speed: LoopSpeed, machine: InstanceType, preset: Preset) -> int:
    """Return how many runs fit on the machines; 1 if that isn't known."""
    used = demand.gpu_use
    gpu_memory = speed.gpu_memory_bytes
    whole = demand.gpus * demand.node_count
    if used is None or used.used < whole or not used.busy or not gpu_memory:
        return 1
    room = 1 + preset.memory_headroom
    return min(
        MOST_RUNS,
        int(MOST_BUSY / used.busy),
        int(machine.gpu_memory_bytes / (gpu_memory * room)),
        int(machine.memory_bytes * USABLE_MEMORY / (demand.memory_p99_bytes * room)),
        int(machine.vcpus * preset.busy_target / max(demand.cores_busy_p95, 0.01)),
    )


def _evidence(demand: Demand, speed: LoopSpeed, machine: InstanceType, count: int) -> list[str]:
    busy = 100 * demand.gpu_use.busy if demand.gpu_use else 0.0
    memory = (speed.gpu_memory_bytes or 0) / GIB
    return [
        f"Each GPU was {busy:.0f} % busy; {count} runs keep it {count * busy:.0f} % busy.",
        f"The run used {memory:.1f} GiB of a GPU's {machine.gpu_memory_bytes / GIB:.0f} GiB.",
        f"{demand.cores_busy_p95:.1f} of {machine.vcpus} cores and "
        f"{demand.memory_p99_bytes / GIB:.1f} of {machine.memory_bytes / GIB:.0f} GiB of memory "
        "were in use.",
    ]


def _steps(speed: LoopSpeed, machine: InstanceType, count: int) -> list[str]:
    at_once = " ".join(["trimtab probe --steps 200 -- python train.py &"] * count)
    profile = _profile(speed, machine, count)
    isolated = [f"Or isolated: nvidia-smi mig -cgi {','.join([profile] * count)} -C"]
    return [
        "nvidia-cuda-mps-control -d  # the runs' kernels then run side by side",
        f"{at_once} wait",
        *(isolated if profile else []),
        "Compare the speeds with a run that has the GPU alone.",
    ]


def _profile(speed: LoopSpeed, machine: InstanceType, count: int) -> str:
    """Return the smallest MIG profile of which `count` fit, and on which a run keeps its speed and
    has its memory; empty if there is none.
    """
    model = gpu_models().get(machine.gpu_key)
    if model is None or speed.util_pct is None or not speed.gpu_memory_bytes:
        return ""
    for profile in model.mig_profiles:
        slice_ = data_sheet(f"{model.key} {profile}")
        if slice_ is None or count * max(slice_.compute_share, slice_.memory_share) > 1:
            continue
        has_memory = slice_.memory_share * model.memory_bytes >= speed.gpu_memory_bytes
        kept = math.exp(log_kept(slice_.share, max(speed.util_pct, 1.0) / 100))
        if has_memory and kept >= KEPT_ON_SLICE:
            return profile
    return ""
