"""The activity of the run's own processes on a node. The machine's figures stand in only where
nothing else is known, or where the run has the machine alone.
"""

from __future__ import annotations

import re
from fnmatch import translate
from functools import cache

import pandas as pd

from rules.activity import host_cpu_pct
from rules.evidence import percentile
from rules.frame import NodeFrame

CPU = ("tree.cpu_seconds_total", "container.cpu_seconds_total")
OWN_TRAFFIC = (
    "tree.requested_bytes_total",
    "tree.passed_on_bytes_total",
    "tree.read_bytes_total",
    "tree.written_bytes_total",
)
MACHINE_TRAFFIC = (
    "disk.read_bytes_total",
    "disk.writ*_bytes_total",
    "nfs.*_bytes_total",
    "lustre.*_bytes_total",
)
NETWORK = ("net.*_bytes_total", "fabric.*_bytes_total")
OWN_MEMORY = ("tree.rss_bytes", "container.memory_working_set_bytes")
SUSPENDED = "tree.suspended_count"
OTHERS_SHARE, OTHERS_CORES = 0.05, 0.5
"""Cores that the operating system and the agent use, as a share of all or at least so many: with
no more than that used by others, a run has its machine alone (ours)."""


def are_cores_own(node: NodeFrame) -> bool:
    """Return whether `own_cores` are the run's or its container's, not the machine's."""
    return any(node.series(name) is not None for name in CPU)


def others_cores(node: NodeFrame, resolution_seconds: float) -> float | None:
    """Return the cores that others on the machine keep busy, at the 95th percentile; None if
    unknown.
    """
    whole, own = _machine_cores(node), node.rate(CPU[0], resolution_seconds)
    if whole is None or own is None:
        return None
    rest = percentile((whole - own).dropna(), 95)
    return None if rest is None else max(rest, 0.0)


def has_neighbours(node: NodeFrame, resolution_seconds: float) -> bool | None:
    """Return whether others do work on the machine; None if unknown."""
    others = others_cores(node, resolution_seconds)
    most = max(OTHERS_CORES, OTHERS_SHARE * node.hardware.vcpus)
    return None if others is None else others > most


def has_machine_alone(node: NodeFrame, resolution_seconds: float) -> bool:
    """Return whether it was given all cores and GPUs, and nobody else does work on the machine."""
    hardware = node.hardware
    given_all = hardware.effective_cpus >= 0.99 * hardware.vcpus > 0
    if not given_all or not all(gpu.allocated for gpu in hardware.gpus):
        return False
    return has_neighbours(node, resolution_seconds) is False


def memory_bytes(node: NodeFrame, resolution_seconds: float) -> pd.Series[float] | None:
    """Return the memory that the run needs: the machine's if it has it alone, else its processes'.

    The machine's includes what no process shows, like files in /dev/shm. That of the processes
    counts pages that they share once per process, so it is at most the machine's.
    """
    whole, own = node.series("host.memory_used_bytes"), own_memory_bytes(node)
    if whole is None or own is None:
        return own if whole is None else whole
    if has_machine_alone(node, resolution_seconds):
        return whole
    least = pd.concat([whole, own], axis=1).dropna().min(axis=1)
    return least if len(least) else own


def own_memory_bytes(node: NodeFrame) -> pd.Series[float] | None:
    """Return the memory of the run's processes, else of its container."""
    return next((s for name in OWN_MEMORY if (s := node.series(name)) is not None), None)


def bytes_per_second(
    node: NodeFrame, names: tuple[str, ...], resolution_seconds: float
) -> pd.Series[float] | None:
    """Return the sum of the counters' rates where all that the node has are known; None if it has
    none.
    """
    rates = [node.rate(name, resolution_seconds) for name in _matching(node, names)]
    known = [each for each in rates if each is not None]
    return pd.concat(known, axis=1).dropna().sum(axis=1) if known else None


def _machine_cores(node: NodeFrame) -> pd.Series[float] | None:
    whole = host_cpu_pct(node)
    return whole / 100 * node.hardware.vcpus if whole is not None and node.hardware.vcpus else None


def _matching(node: NodeFrame, names: tuple[str, ...]) -> list[str]:
    pattern = _any_of(names)
    return [str(name) for name in node.samples.columns if pattern.fullmatch(str(name))]


@cache
def _any_of(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(translate(name) for name in names))
