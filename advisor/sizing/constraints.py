"""The reasons against a machine, in words. The first one found is kept with the candidate."""

from __future__ import annotations

from datetime import datetime

from advisor.pricing.availability import Availability, availability
from advisor.pricing.catalogue import GIB
from advisor.pricing.machine import InstanceType
from advisor.pricing.price import PriceRow
from advisor.pricing.providers import machine_name
from advisor.sizing.demand import Demand, Preset
from advisor.sizing.layout import NodeLayout, is_other_gpu
from advisor.sizing.speed import Seconds

USABLE_MEMORY = 0.95
"""Usable share of the memory on the data sheet. Firmware and kernel take the rest."""
MEGABIT = 1e6 / 8
"""The bytes of a megabit."""


def is_offered(
    demand: Demand, other: InstanceType, price: PriceRow | None, as_of: datetime
) -> Availability:
    """Return whether the machine can be started at `as_of`; the run itself shows that of its
    family.
    """
    is_kin = machine_name(demand.instance_type).partition(".")[0] == other.family
    seen_on = price.seen_at.date() if price and price.seen_at else None
    return availability(other, as_of.date(), seen_on, demand.ran_on if is_kin else None)


def too_little(
    demand: Demand, now: InstanceType, other: InstanceType, planned: NodeLayout, preset: Preset
) -> str:
    """Return why the run wouldn't fit; empty if it fits."""
    if not other.physical_cores:
        return "its physical cores aren't known"
    return (
        _other_kind(now, other)
        or _other_gpus(demand, now, other, planned, preset)
        or _too_little_memory(other, planned, preset)
        or _too_few_cores(demand, now, other, planned, preset)
        or _too_slow_disk(demand, now, other, planned)
        or _too_slow_network(demand, now, other, planned)
    )


def too_slow(demand: Demand, seconds: Seconds, slowdown_limit: float) -> str:
    """Return why it misses the limit; empty if it keeps it."""
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
    demand: Demand, now: InstanceType, other: InstanceType, planned: NodeLayout, preset: Preset
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
    demand: Demand, now: InstanceType, other: InstanceType, planned: NodeLayout, preset: Preset
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


def _too_few_gpus(demand: Demand, planned: NodeLayout, preset: Preset) -> str:
    """Return the reason, or an empty text. Fewer GPUs than were used are enough only if their work
    fits into the rest.
    """
    few = f"fewer GPUs than the {demand.gpus_used} in use"
    if planned.gpu_busy is None:
        return f"{few}, and how busy each was isn't known"
    if planned.gpu_busy <= preset.gpu_target:
        return ""
    target = f"the target is {100 * preset.gpu_target:.0f} %"
    return f"{few}: each would be {100 * planned.gpu_busy:.0f} % busy; {target}"


def _too_little_memory(other: InstanceType, planned: NodeLayout, preset: Preset) -> str:
    needed = planned.memory_bytes * (1 + preset.memory_headroom)
    usable = other.memory_bytes * USABLE_MEMORY
    if needed <= usable:
        return ""
    return f"too little memory: needs {needed / GIB:.1f} GiB, {usable / GIB:.1f} GiB usable"


def _too_few_cores(
    demand: Demand, now: InstanceType, other: InstanceType, planned: NodeLayout, preset: Preset
) -> str:
    """Return the reason, or an empty text. As many cores as now are always enough."""
    has_as_many = other.vcpus * planned.node_count >= now.vcpus * demand.node_count
    if has_as_many or planned.cores.mid <= preset.busy_target * other.vcpus:
        return ""
    return (
        f"too few cores: {planned.cores.mid:.1f} busy of {other.vcpus} "
        f"is above the target of {100 * preset.busy_target:.0f} %"
    )


def _too_slow_disk(
    demand: Demand, now: InstanceType, other: InstanceType, planned: NodeLayout
) -> str:
    """Return the reason by its volumes, if it has no local disks: how fast those are isn't
    stated.
    """
    if demand.disk_bytes_per_second is None or other.local_nvme_bytes:
        return ""
    has_as_much = not now.local_nvme_bytes and _at_least(
        other.ebs_baseline_mbps, now.ebs_baseline_mbps
    )
    needed = _of_each_node(demand.disk_bytes_per_second, demand, planned)
    sustained = (other.ebs_baseline_mbps or 0.0) * MEGABIT
    if not sustained or needed <= sustained or (has_as_much and _keeps_nodes(demand, planned)):
        return ""
    return (
        f"too slow a disk: needs {needed / 1e6:,.0f} MB/s, "
        f"its volumes sustain {sustained / 1e6:,.0f} MB/s"
    )


def _too_slow_network(
    demand: Demand, now: InstanceType, other: InstanceType, planned: NodeLayout
) -> str:
    if demand.network_bytes_per_second is None:
        return ""
    has_as_much = _at_least(other.network_baseline_gbps, now.network_baseline_gbps)
    needed = _of_each_node(demand.network_bytes_per_second, demand, planned)
    sustained = (other.network_baseline_gbps or 0.0) * 1000 * MEGABIT
    if not sustained or needed <= sustained or (has_as_much and _keeps_nodes(demand, planned)):
        return ""
    return (
        f"too slow a network: needs {needed / 1e6:,.0f} MB/s, "
        f"{sustained / 1e6:,.0f} MB/s are sustained"
    )


def _of_each_node(rate: float, demand: Demand, planned: NodeLayout) -> float:
    """Return the rate of each node. Where the GPUs set the pace, the same bytes have more time."""
    return rate * demand.node_count / planned.node_count / planned.gpu_slowdown.low


def _at_least(other: float | None, now: float | None) -> bool:
    return other is not None and now is not None and other >= now


def _keeps_nodes(demand: Demand, planned: NodeLayout) -> bool:
    return planned.node_count == demand.node_count
