"""Predicts a run's duration on other cores, as an interval that widens with the machines'
differences."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from advisor.pricing.catalogue import InstanceType
from advisor.sizing.demand import Demand

SAME_FAMILY_SPREAD = 0.03
"""Twice the 1.4 % variation between machines of one type."""
SAME_PROCESSOR_SPREAD = 0.10
"""Example: m5 and c5 have the same generation and vendor, but another clock and memory."""
OTHER_PROCESSOR_SPREAD = 0.30
"""The clock rate doesn't give the work per cycle. Our choice: data-sheet ratios miss measured
speeds by 20 to 40 %."""
SECOND_THREAD = 0.25
"""The least contribution of a core's second hardware thread, in cores. A cautious choice of
ours."""
_GENERATION = re.compile(r"[a-z]+(\d+)([a-z]*)")


@dataclass(frozen=True)
class Seconds:
    """A predicted duration. The actual one is between low and high about nine times out of ten."""

    low: float
    mid: float
    high: float


def predicted_seconds(demand: Demand, now: InstanceType, other: InstanceType) -> Seconds:
    """The run's duration on `other`.

    The clock ratio scales the whole duration. If the busy cores don't fit, the time grows in
    proportion: at best as if hardware threads were cores, at worst as if the second thread of a
    core added little. The GPUs have to be the same: no speed is guessed for another model.
    """
    if other.name == now.name:
        return Seconds(*(demand.duration_seconds,) * 3)
    spread = processor_spread(now, other)
    ratio = demand.duration_seconds * _clock_ratio(now, other)
    least = max(1.0, demand.cores_busy_p95 / other.vcpus)
    most = max(1.0, demand.cores_busy_p95 / _cores_at_worst(now, other))
    return Seconds(
        low=ratio * least / (1 + spread),
        mid=ratio * math.sqrt(least * most),
        high=ratio * most * (1 + spread),
    )


def processor_spread(now: InstanceType, other: InstanceType) -> float:
    """The possible error of a prediction from one machine to the other, as a share."""
    if now.family == other.family:
        return SAME_FAMILY_SPREAD
    is_alike = now.cpu_vendor == other.cpu_vendor and _generation(now) == _generation(other)
    return SAME_PROCESSOR_SPREAD if is_alike else OTHER_PROCESSOR_SPREAD


def _clock_ratio(now: InstanceType, other: InstanceType) -> float:
    """At least 1 for another processor, because a higher clock doesn't guarantee a shorter run."""
    if now.family == other.family or not now.clock_ghz or not other.clock_ghz:
        return 1.0
    return max(1.0, now.clock_ghz / other.clock_ghz)


def _cores_at_worst(now: InstanceType, other: InstanceType) -> float:
    """With as many threads and cores as now, the measurement still applies."""
    if other.vcpus >= now.vcpus and other.physical_cores >= now.physical_cores:
        return float(other.vcpus)
    return other.physical_cores + SECOND_THREAD * (other.vcpus - other.physical_cores)


def _generation(machine: InstanceType) -> str:
    """`5` for m5, c5d, r5n. A letter after it other than for disk and network is a processor."""
    matched = _GENERATION.match(machine.family)
    return f"{matched[1]}{matched[2].strip('dnz')}" if matched else machine.family
