"""The speed of one machine's cores beside those of another: fitted figures of families.

Source of the table: SpareCores/sc-inspector-data, CC-BY-SA 4.0, as fitted by `tools/cpu_speed.py`.
"""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from advisor.pricing.machine import InstanceType

TABLE = Path(__file__).parent / "tables" / "cpu_speed.csv"
SAME_FAMILY, SAME_GENERATION = "same_family", "same_generation"
OTHER_GENERATION, OTHER_VENDOR = "other_generation", "other_vendor"
SAME_FAMILY_SPREAD = 0.03
"""Twice the 1.4 % variation between machines of one type."""
UNKNOWN_SPREAD = 0.30
"""The spread of a processor without figures, as a log. Our choice: data-sheet ratios miss measured
speeds by 20 to 40 %."""
_GENERATION = re.compile(r"[a-z]+(\d+)([a-z]*)")


@dataclass(frozen=True)
class RatioInterval:
    """A ratio, as an 80 % interval."""

    low: float
    mid: float
    high: float


@dataclass(frozen=True)
class _Table:
    speeds: dict[str, float]
    exponent: RatioInterval
    residuals: dict[str, tuple[float, float]]


@cache
def _table() -> _Table:
    with TABLE.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    [size] = [line for line in lines if line["what"] == "size_exponent"]
    return _Table(
        speeds={x["name"]: float(x["value"]) for x in lines if x["what"] == "thread_speed"},
        exponent=RatioInterval(float(size["low"]), float(size["value"]), float(size["high"])),
        residuals={
            x["name"]: (float(x["low"]), float(x["high"])) for x in lines if x["what"] == "residual"
        },
    )


def size_exponent() -> RatioInterval:
    """Return the power of the number of cores with which throughput grows."""
    return _table().exponent


def core_speed(now: InstanceType, other: InstanceType) -> RatioInterval:
    """Return how fast one core of `other` is, relative to one of `now`.

    Calibrated on workloads that the families' speeds were not fitted to. They gain more from a
    newer processor than one thread of a benchmark does, so the middle is cautious.
    """
    kin = kinship(now, other)
    if kin == SAME_FAMILY:
        return _around(1.0, -SAME_FAMILY_SPREAD, SAME_FAMILY_SPREAD)
    speeds = _table().speeds
    before, after = speeds.get(now.family), speeds.get(other.family)
    if before is None or after is None:
        return _around(_by_clock(now, other), -UNKNOWN_SPREAD, UNKNOWN_SPREAD)
    low, high = _table().residuals[kin]
    low, high = min(low, -SAME_FAMILY_SPREAD), max(high, SAME_FAMILY_SPREAD)
    return _around(after / before, low, high) if after >= before else _slower(after / before, kin)


def _slower(ratio: float, kin: str) -> RatioInterval:
    """Return the ratio to slower cores: the residuals are those of the way back."""
    low, high = _table().residuals[kin]
    return _around(ratio, min(-high, -SAME_FAMILY_SPREAD), max(-low, SAME_FAMILY_SPREAD))


def kinship(now: InstanceType, other: InstanceType) -> str:
    """Return how alike two processors are."""
    if now.family == other.family:
        return SAME_FAMILY
    if now.cpu_vendor != other.cpu_vendor:
        return OTHER_VENDOR
    return SAME_GENERATION if generation(now) == generation(other) else OTHER_GENERATION


def generation(machine: InstanceType) -> str:
    """Return `5` for m5, c5d, r5n. A letter after it other than for disk and network is a
    processor.
    """
    matched = _GENERATION.match(machine.family)
    return f"{matched[1]}{matched[2].strip('dnz')}" if matched else machine.family


def _by_clock(now: InstanceType, other: InstanceType) -> float:
    """Return the ratio of the clocks, at most 1: a higher clock doesn't guarantee a shorter run."""
    if not now.clock_ghz or not other.clock_ghz:
        return 1.0
    return min(1.0, other.clock_ghz / now.clock_ghz)


def _around(mid: float, low: float, high: float) -> RatioInterval:
    """Return the ratio around `mid`; `low` and `high` are distances in logs."""
    return RatioInterval(mid * math.exp(low), mid, mid * math.exp(high))
