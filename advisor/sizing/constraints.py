"""The reasons against a machine, in words. The first one found is kept with the candidate."""

from __future__ import annotations

from datetime import datetime

from advisor.pricing.catalogue import GIB, InstanceType
from advisor.sizing.demand import Demand, Preset
from advisor.sizing.layout import Layout, is_other_gpu
from advisor.sizing.speed import Seconds

USABLE_MEMORY = 0.95
"""Usable share of the memory on the data sheet. Firmware and kernel take the rest."""


def not_sold(demand: Demand, other: InstanceType, is_priced: bool, as_of: datetime) -> str:
    """Empty if it can be started at `as_of`, at a known price."""
    if not other.available_at(as_of.date()):
        return f"no longer available: last offered {other.last_seen}"
    if not is_priced:
        return f"no price in {demand.region or 'an unknown region'}"
    return ""


def too_little(
    demand: Demand, now: InstanceType, other: InstanceType, planned: Layout, preset: Preset
) -> str:
    """Why the run wouldn't fit; empty: it fits."""
    if not other.physical_cores:
        return "its physical cores aren't known"
    return (
        _other_kind(now, other)
        or _other_gpus(demand, now, other, planned, preset)
        or _too_little_memory(other, planned, preset)
        or _too_few_cores(demand, now, other, planned, preset)
    )


def too_slow(demand: Demand, seconds: Seconds, slowdown_limit: float) -> str:
    """Why it misses the limit; empty: it keeps it."""
    slowdown = seconds.mid / demand.duration_seconds - 1 if demand.duration_seconds else 0.0
    if slowdown <= slowdown_limit + 1e-9:
        return ""
    return f"about {100 * slowdown:.0f} % slower; the limit is {100 * slowdown_limit:.0f} %"


def _other_kind(now: InstanceType, other: InstanceType) -> str:
    if other.architecture != now.architecture:
        return f"{other.architecture} processor; the run uses {now.architecture} programs"
    if other.is_burstable and other.family != now.family:
        return "burstable: full speed lasts only as long as its credits"
    return ""


def _other_gpus(
    demand: Demand, now: InstanceType, other: InstanceType, planned: Layout, preset: Preset
) -> str:
    if not demand.gpus_used:
        return "GPUs, which the run doesn't use" if other.gpu_count else ""
    if not other.gpu_count or other.gpu_fraction < now.gpu_fraction:
        return f"fewer GPUs than the {demand.gpus_used} in use"
    if is_other_gpu(now, other):
        return _other_model(demand, now, other, planned, preset)
    if planned.gpus < demand.gpus_used:
        return _too_few_gpus(demand, planned, preset)
    return ""


def _other_model(
    demand: Demand, now: InstanceType, other: InstanceType, planned: Layout, preset: Preset
) -> str:
    if other.gpu_key not in demand.gpu_speeds or other.gpu_fraction < 1:
        return f"the run's speed on {other.gpu_model} was not measured"
    if planned.gpus < demand.gpus_used:
        return f"fewer GPUs than the {demand.gpus_used} in use"
    used_pct = demand.gpu_use.memory_pct if demand.gpu_use else None
    needed = now.gpu_memory_bytes
    if used_pct is not None:
        needed = int(needed * min(used_pct / 100 * (1 + preset.memory_headroom), 1.0))
    if other.gpu_memory_bytes >= needed:
        return ""
    return (
        f"too little GPU memory: needs {needed / GIB:.1f} GiB, "
        f"{other.gpu_model} has {other.gpu_memory_bytes / GIB:.1f} GiB"
    )


def _too_few_gpus(demand: Demand, planned: Layout, preset: Preset) -> str:
    """Fewer than were used only if their work fits into the rest."""
    few = f"fewer GPUs than the {demand.gpus_used} in use"
    if planned.gpu_busy is None:
        return f"{few}, and how busy each was isn't known"
    if planned.gpu_busy <= preset.gpu_target:
        return ""
    target = f"the target is {100 * preset.gpu_target:.0f} %"
    return f"{few}: each would be {100 * planned.gpu_busy:.0f} % busy; {target}"


def _too_little_memory(other: InstanceType, planned: Layout, preset: Preset) -> str:
    needed = planned.memory_bytes * (1 + preset.memory_headroom)
    usable = other.memory_bytes * USABLE_MEMORY
    if needed <= usable:
        return ""
    return f"too little memory: needs {needed / GIB:.1f} GiB, {usable / GIB:.1f} GiB usable"


def _too_few_cores(
    demand: Demand, now: InstanceType, other: InstanceType, planned: Layout, preset: Preset
) -> str:
    """As many cores as now are always enough."""
    has_as_many = other.vcpus * planned.node_count >= now.vcpus * demand.node_count
    if has_as_many or planned.cores.mid <= preset.busy_target * other.vcpus:
        return ""
    return (
        f"too few cores: {planned.cores.mid:.1f} busy of {other.vcpus} "
        f"is above the target of {100 * preset.busy_target:.0f} %"
    )
