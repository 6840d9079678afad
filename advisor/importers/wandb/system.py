"""System metrics of W&B as our series. https://docs.wandb.ai/ref/system-metrics

Statistics of one tick come in one record or in several, a few milliseconds apart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from advisor.importers.activity import MOST_GPUS
from advisor.importers.recording import Floats

_MIB = 2.0**20
_LABEL = "/l:"
"""The text before the name of a node, where several write one run."""
_MOST_CORES = 2048
_GPU = re.compile(r"gpu\.(\d{1,3})\.(\w+)")
_CORE = re.compile(r"cpu\.(\d{1,4})\.cpu_percent")
_OF_GPU = {
    "gpu": ("busy_pct", 1.0),
    "memory": ("memory_controller_busy_pct", 1.0),
    "memoryAllocatedBytes": ("memory_used_bytes", 1.0),
    "memoryAllocated": ("memory_used_pct", 1.0),
    "temp": ("temperature_celsius", 1.0),
    "powerWatts": ("power_watts", 1.0),
    "powerPercent": ("power_used_pct", 1.0),
    "enforcedPowerLimitWatts": ("power_limit_watts", 1.0),
    "smClock": ("sm_clock_mhz", 1.0),
    "memoryClock": ("memory_clock_mhz", 1.0),
}
"""A metric of a GPU -> our series of it, and the factor to its unit."""
_OF_HOST = {
    "memory_percent": ("host.memory_used_pct", 1.0),
    "memory": ("host.memory_used_pct", 1.0),
    "proc.memory.availableMB": ("host.memory_available_bytes", _MIB),
    "network.sent": ("net.sent_bytes_total", 1.0),
    "network.recv": ("net.received_bytes_total", 1.0),
}

Tick = tuple[int, dict[str, float]]
"""Unix milliseconds, and series -> value."""


def node_of(key: str) -> str:
    """Return the node that a metric's key names; empty for none."""
    return key.partition(_LABEL)[2]


def place_of(key: str) -> tuple[str, float] | None:
    """Series and factor; None: no series of ours."""
    name = key.partition(_LABEL)[0].removeprefix("system.")
    if found := _GPU.fullmatch(name):
        known = _OF_GPU.get(found[2])
        gpu = int(found[1])
        return (f"gpu{gpu}.{known[0]}", known[1]) if known and gpu < MOST_GPUS else None
    if found := _CORE.fullmatch(name):
        core = int(found[1])
        return (f"cpu{core}.busy_pct", 1.0) if core < _MOST_CORES else None
    return _OF_HOST.get(name)


def number(said: Any, factor: float) -> float:
    """Return the number, or NaN for no number, or an impossible one."""
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 <= said < 1e18:
        return math.nan
    return float(said) * factor


def ticks(records: Iterable[Tick]) -> Iterator[Tick]:
    """Yield the ticks. A tick ends where a series is named again."""
    at_ms, values = 0, dict[str, float]()
    for time_ms, found in records:
        if values and not values.keys().isdisjoint(found):
            yield at_ms, values
            values = {}
        at_ms = at_ms if values else time_ms
        values.update(found)
    if values:
        yield at_ms, values


def columns(batch: Sequence[Tick]) -> dict[str, Floats]:
    """Series -> a value for each tick; with the mean of all cores."""
    found: dict[str, Floats] = {}
    for place, (_, values) in enumerate(batch):
        for name, value in values.items():
            if name not in found:
                found[name] = np.full(len(batch), np.nan)
            found[name][place] = value
    found = {n: each.round(0 if n.endswith("_total") else 3) for n, each in found.items()}
    cores = [each for name, each in found.items() if name.startswith("cpu")]
    if cores:
        mean: Floats = np.mean(np.array(cores), axis=0)
        found["host.cpu_busy_pct"] = mean.round(3)
    return found
