"""MLflow's system metrics as our series, and back.

They are of the whole machine. MLflow's megabytes and gigabytes are powers of ten; what it counts
since its start stays a counter. https://mlflow.org/docs/latest/system-metrics/
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from trimtab.wire import Block

_NODE = r"[\w.\-]{1,100}"
_GPU = re.compile(rf"system/(?:({_NODE})/)?gpu_(\d{{1,2}})_(\w+)\Z")
_HOST = re.compile(rf"system/(?:({_NODE})/)?(\w+)\Z")
_OF_HOST = {
    "cpu_utilization_percentage": ("host.cpu_busy_pct", 1),
    "system_memory_usage_megabytes": ("host.memory_used_bytes", 1_000_000),
    "system_memory_usage_percentage": ("host.memory_used_pct", 1),
    "disk_usage_percentage": ("fs_root.used_pct", 1),
    "disk_usage_megabytes": ("fs_root.used_bytes", 1_000_000),
    "disk_available_megabytes": ("fs_root.free_bytes", 1_000_000),
    "network_receive_megabytes": ("net.received_bytes_total", 1_000_000),
    "network_transmit_megabytes": ("net.sent_bytes_total", 1_000_000),
}
_OF_GPU = {
    "utilization_percentage": ("busy_pct", 1),
    "memory_usage_megabytes": ("memory_used_bytes", 1_000_000),
    "memory_usage_gigabytes": ("memory_used_bytes", 1_000_000_000),
    "memory_usage_percentage": ("memory_used_pct", 1),
    "power_usage_watts": ("power_watts", 1),
    "power_usage_percentage": ("power_used_pct", 1),
}
_CADENCES_MS = (500, 1_000, 2_000, 5_000, 10_000, 15_000, 30_000, 60_000, 300_000)
DEFAULT_CADENCE_MS = 10_000


@dataclass(frozen=True)
class Place:
    """Where a system metric goes.

    Attributes:
        node: which of several machines; empty: the only one.
        factor: what the metric's values are multiplied by.
        gpu: its number, from 0.
    """

    node: str
    series: str
    factor: int
    gpu: int | None = None


@dataclass(frozen=True)
class Sample:
    series: str
    time_ms: int
    """Unix time."""
    value: float


def place_of(metric: str) -> Place | None:
    """None: the metric is none of MLflow's system metrics, or of an unknown unit."""
    if found := _GPU.match(metric):
        known = _OF_GPU.get(found[3])
        gpu = int(found[2])
        return Place(found[1] or "", f"gpu{gpu}.{known[0]}", known[1], gpu) if known else None
    if found := _HOST.match(metric):
        known = _OF_HOST.get(found[2])
        return Place(found[1] or "", *known) if known else None
    return None


def sample(place: Place, time_ms: int, value: float) -> Sample:
    return Sample(place.series, time_ms, value * place.factor)


def block(samples: Iterable[Sample], start_ms: int) -> Block | None:
    """Samples as columns, with times since `start_ms`; None without samples."""
    values = {(each.series, each.time_ms): each for each in samples}
    if not values:
        return None
    times = sorted({each.time_ms for each in values.values()})
    names = sorted({each.series for each in values.values()})
    columns = {name: [_value(values.get((name, at))) for at in times] for name in names}
    return Block([at - start_ms for at in times], columns)


def _value(known: Sample | None) -> float | int | None:
    """What is no number is missing, as what wasn't sent."""
    if known is None or not math.isfinite(known.value) or abs(known.value) > 2**60:
        return None
    return round(known.value) if known.series.endswith("_total") else known.value


def cadence_ms(between_ms: int) -> int:
    """The sampling interval that was probably meant."""
    return next((each for each in _CADENCES_MS if between_ms <= each * 1.4), _CADENCES_MS[-1])
