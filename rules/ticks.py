"""The series of which a frame has ticks: single samples that thresholds may be compared with."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import cache
from itertools import chain

from rules.registry import all_rules

KEPT = (
    "container.cpu_seconds_total",
    "container.cpu_periods_total",
    "container.cpu_throttled_periods_total",
    "container.cpu_throttled_seconds_total",
    "container.memory_working_set_bytes",
    "container.psi_io_full_us_total",
    "disk.read_bytes_total",
    "disk.write_bytes_total",
    "disk.written_bytes_total",
    "fabric.received_bytes_total",
    "fabric.sent_bytes_total",
    "gpu*.busy_pct",
    "gpu*.dram_active_pct",
    "gpu*.memory_controller_busy_pct",
    "gpu*.memory_used_bytes",
    "gpu*.power_watts",
    "gpu*.sm_clock_mhz",
    "gpu*.sm_active_pct",
    "gpu*.tensor_active_pct",
    "gpu*.throttled_power_brake_ns_total",
    "gpu*.throttled_thermal_ns_total",
    "host.cpu_busy_pct",
    "host.cpu_iowait_pct",
    "host.memory_used_bytes",
    "host.memory_used_pct",
    "host.psi_io_full_us_total",
    "lustre.read_bytes_total",
    "lustre.write_bytes_total",
    "net.received_bytes_total",
    "net.sent_bytes_total",
    "nfs.read_bytes_total",
    "nfs.write_bytes_total",
    "tree.cpu_seconds_total",
    "tree.passed_on_bytes_total",
    "tree.read_bytes_total",
    "tree.requested_bytes_total",
    "tree.rss_bytes",
    "tree.run_delay_seconds_total",
    "tree.starved_seconds_total",
    "tree.suspended_count",
    "tree.written_bytes_total",
    "workers.processes",
)
"""The series that rules and labels read, beside what a rule `needs`."""
_SINGLE_CORES = "cpu*.busy_pct"
"""The series that aren't kept: a machine has hundreds, and only their mean is judged."""


@cache
def has_ticks(series: str) -> bool:
    """Return whether a frame of a long run has ticks of the series, beside its cells."""
    return bool(_pattern().fullmatch(series))


def patterns() -> str:
    """Return what says which series have ticks, as text; another release may have others."""
    return _pattern().pattern


@cache
def _pattern() -> re.Pattern[str]:
    needs = [need.split("|") for rule in all_rules().values() for need in rule.needs]
    needed = set(chain.from_iterable(needs))
    patterns = {name for name in needed if "." in name} - {_SINGLE_CORES}
    return re.compile("|".join(translate(name) for name in sorted({*KEPT, *patterns})))
