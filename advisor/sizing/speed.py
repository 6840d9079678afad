"""Predicts a run's duration on other cores, as an interval that widens with the machines'
differences."""

from __future__ import annotations

import math
from dataclasses import dataclass

from advisor.pricing.machine import InstanceType
from advisor.sizing.cpu import SAME_FAMILY, RatioInterval, core_speed, kinship, size_exponent
from advisor.sizing.demand import Demand
from advisor.sizing.layout import NodeLayout, is_other_gpu
from advisor.sizing.pace import LoaderPace

SECOND_THREAD = 0.25
"""The least contribution of a core's second hardware thread, in cores. A cautious choice of
ours."""


@dataclass(frozen=True)
class Seconds:
    """A predicted duration. The actual one is between low and high about eight times out of ten."""

    low: float
    mid: float
    high: float


def predicted_seconds(
    demand: Demand, now: InstanceType, other: InstanceType, planned: NodeLayout
) -> Seconds:
    """Return the run's duration on machines of another type, which have the same GPUs, if it uses
    any.

    The speed of a core scales the duration. With fewer cores than are busy, the run takes longer:
    at best by the least power of the number of cores that throughput grows with, at worst in
    proportion, as if the second thread of a core added little. More cores than are busy change
    nothing.

    A run with GPUs whose loader sets the pace is faster with faster cores, until the GPU sets it.
    Any other run with GPUs isn't predicted faster by them: that is the optimistic end only. If
    fewer GPUs do the work, that takes longer at worst by the time for which each is busier.

    Where the job or a probe ran on as many of the machines, what was measured counts.
    """
    if planned.node_count == demand.node_count:
        if other.name == now.name:
            return Seconds(*(demand.duration_seconds,) * 3)
        if ran := demand.machine_speeds.get(other.name):
            return Seconds(
                *(demand.duration_seconds / each for each in (ran.high, ran.mid, ran.low))
            )
    speed, crowd = core_speed(now, other), _crowding(demand, now, other, planned)
    busier = _product(planned.gpu_slowdown, _gpu_time(demand, now, other))
    if demand.gpus_used and demand.pace:
        return _paced(demand, demand.pace, speed, crowd, busier)
    if demand.gpus_used:
        speed = RatioInterval(min(speed.low, 1.0), min(speed.mid, 1.0), max(speed.high, 1.0))
    slower = RatioInterval(1 / speed.high, 1 / speed.mid, 1 / speed.low)
    factor = _product(slower, crowd, busier)
    seconds = (demand.duration_seconds * each for each in (factor.low, factor.mid, factor.high))
    return Seconds(*seconds)


def _paced(
    demand: Demand, pace: LoaderPace, speed: RatioInterval, crowd: RatioInterval, gpu: RatioInterval
) -> Seconds:
    loader = _product(RatioInterval(1 / speed.high, 1 / speed.mid, 1 / speed.low), crowd)
    time = pace.time(loader, gpu)
    return Seconds(*(demand.duration_seconds * each for each in (time.low, time.mid, time.high)))


def _gpu_time(demand: Demand, now: InstanceType, other: InstanceType) -> RatioInterval:
    """Return the time on another GPU model, by what is known of the run's speed there."""
    known = demand.gpu_speeds.get(other.gpu_key)
    if known is None or not is_other_gpu(now, other):
        return RatioInterval(1.0, 1.0, 1.0)
    return RatioInterval(1 / known.ratio.high, 1 / known.ratio.mid, 1 / known.ratio.low)


def _product(*factors: RatioInterval) -> RatioInterval:
    """Return the product. The errors are independent: the distances to the ends add up as squares,
    in logs.
    """
    mid = math.prod(each.mid for each in factors)
    below = math.hypot(*(math.log(each.mid / each.low) for each in factors))
    above = math.hypot(*(math.log(each.high / each.mid) for each in factors))
    return RatioInterval(mid * math.exp(-below), mid, mid * math.exp(above))


def is_other_processor(now: InstanceType, other: InstanceType) -> bool:
    return kinship(now, other) != SAME_FAMILY


def _crowding(
    demand: Demand, now: InstanceType, other: InstanceType, planned: NodeLayout
) -> RatioInterval:
    """Return by how much longer the busy cores' work takes on the cores of `other`; at least 1."""
    at_least = max(1.0, planned.cores.mid / other.vcpus) ** size_exponent().low
    at_worst = _worst(demand, now, other, planned, planned.cores.mid)
    most = _worst(demand, now, other, planned, planned.cores.high)
    return RatioInterval(at_least, math.sqrt(at_least * at_worst), most)


def _worst(
    demand: Demand, now: InstanceType, other: InstanceType, planned: NodeLayout, cores: float
) -> float:
    """Return how much longer it takes at worst if `cores` of each node are busy. Their work is
    measured on the present machine.
    """
    spread = planned.node_count / demand.node_count
    work = _in_cores(cores * spread, now) / spread
    return max(1.0, cores / other.vcpus, work / _in_cores(other.vcpus, other))


def _in_cores(busy_threads: float, machine: InstanceType) -> float:
    """Return what busy hardware threads get done at least, in whole cores."""
    second_threads = max(busy_threads - machine.physical_cores, 0.0)
    return busy_threads - (1 - SECOND_THREAD) * second_threads
