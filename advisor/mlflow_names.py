"""The names of MLflow's system metrics, parameters, tags and states, and what they are here.

System metrics are of the whole machine. MLflow's megabytes and gigabytes are powers of ten; what it
counts since its start stays a counter. https://mlflow.org/docs/latest/system-metrics/
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trimtab.wire import LIMITS

STATES = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "stopped"}
"""The states of a run that ended."""
OUR_TAGS = "trimtab."
"""Tags that say on which machine a run is begin so."""
MACHINE_TAGS = (
    "provider",
    "service",
    "region",
    "zone",
    "instance_type",
    "purchase_option",
)
TRUNCATED = "trimtab.truncated"
"""The tag that names values of the run that were cut."""
TRACES = "trimtab.traces"
"""The tag of a run whose program traced."""
_OWN_TAGS = ("mlflow.", OUR_TAGS)
_CONSTANTS: dict[str, Any] = {"True": True, "False": False, "None": None}
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
class MetricPlace:
    """The place of a system metric here.

    Attributes:
        node: which of several machines; empty: the only one.
        factor: what the metric's values are multiplied by.
        gpu: its number, from 0.
    """

    node: str
    series: str
    factor: int
    gpu: int | None = None


def place_of(metric: str) -> MetricPlace | None:
    """Return the place, or None if the metric is none of MLflow's system metrics, or of an unknown
    unit.
    """
    if found := _GPU.match(metric):
        known = _OF_GPU.get(found[3])
        gpu = int(found[2])
        return MetricPlace(found[1] or "", f"gpu{gpu}.{known[0]}", known[1], gpu) if known else None
    if found := _HOST.match(metric):
        known = _OF_HOST.get(found[2])
        return MetricPlace(found[1] or "", *known) if known else None
    return None


def cadence_ms(between_ms: int) -> int:
    """Return the sampling interval that was probably meant."""
    return next((each for each in _CADENCES_MS if between_ms <= each * 1.4), _CADENCES_MS[-1])


def to_json_number(value: float) -> float | str:
    """Numbers that JSON lacks as clients send them."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def shown_parameters(values: Mapping[str, str]) -> dict[str, Any]:
    """Return the parameters as an agent would declare them: numbers as numbers."""
    short = LIMITS.name_chars
    return {key[:short]: _scalar(value) for key, value in values.items()}


def shown_tags(values: Mapping[str, str]) -> dict[str, str]:
    """Return the tags that people set."""
    short = LIMITS.name_chars
    return {
        key[:short]: value[:short]
        for key, value in values.items()
        if key in (TRUNCATED, TRACES) or not key.startswith(_OWN_TAGS)
    }


def _scalar(text: str) -> Any:
    """Return the number, truth value or nothing that Python writes like this; else the text."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if str(number) == text and math.isfinite(number) and abs(number) < 2**53:
            return number
    return text[: LIMITS.text_chars]
