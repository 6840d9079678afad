"""Columns of a table that nvitop's `ResourceMetricCollector` collected.

They are named `TAG/SCOPE/METRIC (UNIT)/mean`, with `gpu:3` or `cuda:0 (gpu:3)` or `host` as scope:
https://nvitop.readthedocs.io/en/latest/api/collector.html.
"""

from __future__ import annotations

import re

TIME = "time"
_MIB = 2.0**20
_COLUMN = re.compile(
    r"(?:.*/)?(?:cuda:(?P<cuda>\d{1,2}) \(gpu:\d+\)|gpu:(?P<gpu>\d{1,2})|(?P<host>host))/"
    r"(?P<metric>\w+ \([^()]*\))(?:/mean)?"
)
_TIMESTAMP = re.compile(r"[^/]+/timestamp")
_OF_GPU: dict[str, tuple[str, float]] = {
    "gpu_utilization (%)": ("busy_pct", 1.0),
    "memory_utilization (%)": ("memory_controller_busy_pct", 1.0),
    "memory_used (MiB)": ("memory_used_bytes", _MIB),
    "memory_percent (%)": ("memory_used_pct", 1.0),
    "temperature (C)": ("temperature_celsius", 1.0),
    "power_usage (W)": ("power_watts", 1.0),
    "power_limit (W)": ("power_limit_watts", 1.0),
}
"""A metric of a GPU -> our series of the GPU, and the factor to its unit."""
_OF_HOST: dict[str, tuple[str, float]] = {
    "cpu_percent (%)": ("host.cpu_busy_pct", 1.0),
    "memory_percent (%)": ("host.memory_used_pct", 1.0),
}


def series_of(column: str) -> tuple[str, float] | None:
    """Return the series of a column and the factor to its unit, or `time`; None: no series of ours.

    Minima and maxima of an interval, and what belongs to one process, are none.
    """
    if _TIMESTAMP.fullmatch(column):
        return TIME, 1.0
    found = _COLUMN.fullmatch(column)
    if found is None or "pid:" in column:
        return None
    if found["host"]:
        return _OF_HOST.get(found["metric"])
    known = _OF_GPU.get(found["metric"])
    number = int(found["cuda"] or found["gpu"])
    return (f"gpu{number}.{known[0]}", known[1]) if known else None
