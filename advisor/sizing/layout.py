"""The layout of a run's work on some number of machines of a type."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from advisor.pricing.machine import InstanceType
from advisor.sizing.cpu import RatioInterval
from advisor.sizing.demand import Demand, Preset

NO_SLOWDOWN_BUSY, SPEED_KEPT = 0.8, 0.97
"""The utilisation up to which nothing slows down, and the speed that is kept above it. On public
measurements of jobs that share a GPU, none slows down while their utilisations sum to at most 80 %;
up to 100 % they keep 97 % of their speed."""


@dataclass(frozen=True)
class NodeLayout:
    """`node_count` machines. Of each node: busy cores as an interval, and bytes of memory."""

    node_count: int
    gpus: int
    """GPUs that work, over all nodes; of a run without GPUs 0."""
    gpu_busy: float | None
    """The mean utilisation of each of them, if they do all of the work; above 1, they need more
    time. None: not known."""
    cores: RatioInterval
    memory_bytes: float
    gpu_slowdown: RatioInterval
    """The time relative to now, because fewer GPUs do the work; at least 1."""


def layouts(demand: Demand, other: InstanceType, preset: Preset) -> Iterator[NodeLayout]:
    """Yield the layout on as many nodes as now; and on the fewest that hold the work, if that is
    fewer.

    Never more nodes or GPUs than were measured: from one size alone nobody knows how it scales.
    """
    yield layout(demand, other, demand.node_count)
    fewest = _fewest_nodes(demand, other, preset)
    if fewest < demand.node_count:
        yield layout(demand, other, fewest)


def layout(demand: Demand, other: InstanceType, node_count: int) -> NodeLayout:
    """Return the work of all nodes, spread evenly over `node_count`.

    With fewer GPUs, fewer processes do the work. Their cores then need something between the same
    work in all and the same work a process. Where the GPUs set the pace, cores have more time.
    """
    used = demand.gpus_used
    gpus = min(used, int(node_count * other.gpu_count)) if used else 0
    kept = gpus / used if gpus else 1.0
    before, after = _busy(demand, used), _busy(demand, gpus)
    slowdown = _slowdown(before, after) if before and after else RatioInterval(1.0, 1.0, 1.0)
    whole = demand.cores_busy_p95 * demand.node_count / node_count / slowdown.low
    cores = RatioInterval(whole * kept, whole * math.sqrt(kept), whole)
    return NodeLayout(
        node_count=node_count,
        gpus=gpus,
        gpu_busy=after,
        cores=cores,
        memory_bytes=demand.memory_p99_bytes * max(1.0, demand.node_count * kept / node_count),
        gpu_slowdown=slowdown,
    )


def _slowdown(before: float, after: float) -> RatioInterval:
    """Bound the slowdown. At worst, no additional work overlaps with other work; at best, the GPUs
    work all the time."""
    least = max(1.0, after)
    likely = least if after <= max(NO_SLOWDOWN_BUSY, before) else least / SPEED_KEPT
    return RatioInterval(least, likely, max(1 + after - before, likely))


def _busy(demand: Demand, gpus: int) -> float | None:
    return demand.gpu_use.load / gpus if demand.gpu_use and gpus else None


def _fewest_nodes(demand: Demand, other: InstanceType, preset: Preset) -> int:
    """Return the fewest nodes by cores, GPUs and memory, each filled up to the target at most."""
    needed = demand.cores_busy_p95 * demand.node_count / max(other.vcpus * preset.busy_target, 1e-9)
    fewest = max(1, math.ceil(needed))
    if demand.gpus and other.gpu_count and demand.gpu_use:
        gpus = max(1, math.ceil(demand.gpu_use.load / preset.gpu_target))
        fewest = max(1, math.ceil(Fraction(gpus, other.gpu_count)))
    return min(fewest, demand.node_count)


def is_other_gpu(now: InstanceType, other: InstanceType) -> bool:
    return (other.gpu_model, other.gpu_memory_bytes) != (now.gpu_model, now.gpu_memory_bytes)
