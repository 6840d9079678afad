"""The utilisation of a node's cores and GPUs, from the series that it has."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet

import numpy as np
import pandas as pd

from rules.evidence import known_part
from rules.frame import NodeFrame

_ALL_CORES = "host.cpu_busy_pct"
_CORE_BUSY = re.compile(r"cpu\d+\.busy_pct")
LONG_STEP_SECONDS = 10.0
"""A shorter first step changes no verdict by being counted (ours)."""


def has_part(node: NodeFrame) -> bool:
    """Return whether the run was given only some of the node's cores, and its own use of them is
    known.
    """
    given, all_cores = node.hardware.effective_cpus, node.hardware.vcpus
    known = given > 0 and node.series("tree.cpu_seconds_total") is not None
    return known and (host_cpu_pct(node) is None or given < 0.99 * all_cores)


def cores(node: NodeFrame) -> float:
    """Return the number of cores that `cpu_pct` refers to; 0 if unknown."""
    return node.hardware.effective_cpus if has_part(node) else float(node.hardware.vcpus)


def cpu_pct(node: NodeFrame, resolution_seconds: float) -> pd.Series[float] | None:
    """Return 0..100 of the allocated cores: the host's utilisation, or that of the run's own
    processes.
    """
    if not has_part(node):
        return host_cpu_pct(node)
    busy = node.rate("tree.cpu_seconds_total", resolution_seconds)
    return None if busy is None else 100 * busy / node.hardware.effective_cpus


def host_cpu_pct(node: NodeFrame) -> pd.Series[float] | None:
    """Return the use of all cores of the machine together: as measured, else the mean of the single
    cores.
    """
    return node.once(_host_cpu_pct)


def needed_series(series: AbstractSet[str]) -> AbstractSet[str]:
    """Return the node's series that its frame needs: all but the single cores, of which a machine
    has hundreds and `host_cpu_pct` looks at none where all of them together were measured.
    """
    if _ALL_CORES not in series:
        return series
    return {name for name in series if not _CORE_BUSY.fullmatch(name)}


def _host_cpu_pct(node: NodeFrame) -> pd.Series[float] | None:
    whole = node.series(_ALL_CORES)
    if whole is not None:
        return whole
    names = [str(name) for name in node.samples.columns if _CORE_BUSY.fullmatch(str(name))]
    single = pd.DataFrame({name: node.column(name) for name in names})
    return known_part(single.mean(axis=1))


def own_cores(node: NodeFrame, resolution_seconds: float) -> pd.Series[float] | None:
    """Return the busy cores of the run's processes, else of its container, else of the whole
    machine.
    """
    for name in ("tree.cpu_seconds_total", "container.cpu_seconds_total"):
        busy = node.rate(name, resolution_seconds)
        if busy is not None:
            return busy
    whole = host_cpu_pct(node)
    return whole / 100 * node.hardware.vcpus if whole is not None and node.hardware.vcpus else None


def gpu_table(node: NodeFrame) -> pd.DataFrame:
    """Return the utilisation of the allocated GPUs, one column per GPU with data; NaN is
    unknown.
    """
    return node.once(_gpu_table)


def _gpu_table(node: NodeFrame) -> pd.DataFrame:
    columns = {n: node.column(f"gpu{n}.busy_pct") for n in node.allocated_gpus()}
    known = {n: busy for n, busy in columns.items() if node.gpu_busy_pct(n) is not None}
    return pd.DataFrame(known, index=node.judged.index)


def used_gpu_pct(node: NodeFrame) -> pd.Series[float] | None:
    """Return the mean over the used GPUs; None if no GPU was used, or none is known."""
    return node.once(_used_gpu_pct)


def _used_gpu_pct(node: NodeFrame) -> pd.Series[float] | None:
    used, table = list(node.used_gpus), gpu_table(node)
    if not used:
        return None
    every = len(used) == len(table.columns)
    return known_part((table if every else table[used]).mean(axis=1))


def busiest_gpu_pct(node: NodeFrame) -> pd.Series[float] | None:
    """Return the highest utilisation of any allocated GPU, if all of them are known."""
    return node.once(_busiest_gpu_pct)


def _busiest_gpu_pct(node: NodeFrame) -> pd.Series[float] | None:
    table = gpu_table(node)
    if not len(table.columns) or len(table.columns) < len(node.allocated_gpus()):
        return None
    return known_part(table.max(axis=1, skipna=False))


def last_step_end_seconds(node: NodeFrame) -> float | None:
    """Return when the last step of any phase ended; None without steps."""
    return node.once(_last_step_end_seconds)


def _last_step_end_seconds(node: NodeFrame) -> float | None:
    if not len(node.steps):
        return None
    columns = ("start_seconds", "duration_seconds", "count")
    start, length, count = (node.step_column(name) for name in columns)
    last = float(np.fmax.reduce(start + length * count))
    return last if np.isfinite(last) else None


def work_began(node: NodeFrame) -> bool:
    """Return whether a training step or the use of a GPU has ended the node's warm-up."""
    return node.first_use_seconds is not None or bool(node.is_phase("train").any())


def first_step_end_seconds(node: NodeFrame) -> float:
    """Return the end of the first training step if it is long, as with compilation; else of
    warm-up.
    """
    return node.once(_first_step_end_seconds)


def _first_step_end_seconds(node: NodeFrame) -> float:
    columns = ("start_seconds", "duration_seconds")
    starts, lengths = (node.step_column(name)[node.is_phase("train")] for name in columns)
    if not np.isfinite(starts).any():
        return node.warm_up_end_seconds()
    first = int(np.nanargmin(starts))
    return float(starts[first] + (lengths[first] if lengths[first] >= LONG_STEP_SECONDS else 0.0))


def working(node: NodeFrame, series: pd.Series[float] | None) -> pd.Series[float] | None:
    """Return the part of a series between the first and the last step; without steps, after
    warm-up.
    """
    if series is None:
        return None
    begin, end = first_step_end_seconds(node), last_step_end_seconds(node)
    last = end if end is not None and end > begin else np.inf
    low, high = series.index.searchsorted([begin, last])
    is_whole = low == 0 and high == len(series)
    part = series if is_whole else series.iloc[int(low) : int(high)]
    return part if len(part) else None
