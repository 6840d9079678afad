"""The statistics of SageMaker Debugger's report, by its documented definitions, for cross-checks.

Nothing is judged here. Percentiles are NumPy's (linear), standard deviations are of the
population, distances use the natural logarithm.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rules.activity import gpu_table, host_cpu_pct
from rules.evidence import known_part
from rules.frame import NodeFrame, RunFrame
from rules.training_loop import loop_span

Floats = NDArray[np.float64]
STATISTICS = ("max", "p99", "p95", "p90", "p50", "min")
"""SageMaker's table has all but p90, which its text names instead of p95."""
SYSTEM_METRICS = ("Network", "GPU", "CPU", "CPU memory", "GPU memory", "I/O")


def percentile_rows(frame: RunFrame) -> list[tuple[Any, ...]]:
    """Return OverallSystemUsage's table: node, metric and `STATISTICS`, a row for each known
    metric.

    They are percentages of all cores, of all allocated GPUs, of the memory; network in bytes a
    second, both directions. Negative values count as 0; two decimals.
    """
    return [
        (node.key, metric, *statistics(values))
        for node in frame.nodes.values()
        for metric in SYSTEM_METRICS
        if len(values := system_metric(node, metric, frame.resolution_seconds))
    ]


def statistics(values: Floats) -> tuple[float, ...]:
    """Return `STATISTICS` of at least one known value."""
    percentiles = np.percentile(np.clip(values, 0.0, None), [100, 99, 95, 90, 50, 0])
    return tuple(float(value) for value in np.round(percentiles, 2))


def system_metric(node: NodeFrame, metric: str, resolution_seconds: float) -> Floats:
    """Return the known values of one of `SYSTEM_METRICS`, one per tick; empty if it wasn't
    measured.
    """
    if metric == "Network":
        series = _network(node, resolution_seconds)
    elif metric == "GPU":
        series = _mean_of_all(gpu_table(node), len(node.allocated_gpus()))
    elif metric == "GPU memory":
        series = _mean_of_all(gpu_memory_table(node), len(node.allocated_gpus()))
    elif metric == "CPU":
        series = host_cpu_pct(node)
    elif metric == "CPU memory":
        series = _memory_pct(node)
    else:
        series = node.series("host.cpu_iowait_pct")
    return np.asarray([] if series is None else series, dtype=np.float64)


def gpu_memory_table(node: NodeFrame) -> pd.DataFrame:
    """Return the used memory of the allocated GPUs in percent, one column per known GPU."""
    return node.once(_gpu_memory_table)


def _gpu_memory_table(node: NodeFrame) -> pd.DataFrame:
    columns = {}
    for number in node.allocated_gpus():
        used = node.column(f"gpu{number}.memory_used_bytes")
        cards = node.hardware.gpus
        total = cards[number].memory_bytes if number < len(cards) else 0
        if used is not None and total > 0 and known_part(used) is not None:
            columns[number] = 100 * used.to_numpy() / total
    return pd.DataFrame(columns, index=node.judged.index)


def distance(first: NDArray[Any], second: NDArray[Any]) -> float | None:
    """Return the root of the Jensen-Shannon divergence of two histograms, 0 to 0.833.

    None if one of them is empty.
    """
    if not (first.sum() > 0 and second.sum() > 0):
        return None
    p, q = first / first.sum(), second / second.sum()
    middle = (p + q) / 2
    divergence = (_relative_entropy(p, middle) + _relative_entropy(q, middle)) / 2
    return float(np.sqrt(max(divergence, 0.0)))


def framework_seconds(frame: RunFrame) -> dict[str, float]:
    """Return OverallFrameworkMetrics' seconds in training and evaluation steps and between steps.

    They are those of each rank from its first to its last step; `others` is what no step covers.
    The mean over the ranks; empty without steps.
    """
    whole, seconds, ranks = 0.0, defaultdict[str, float](float), 0
    for node in frame.nodes.values():
        done = node.is_timed
        columns = ("start_seconds", "duration_seconds", "count")
        start, length, count = (node.step_column(name)[done] for name in columns)
        time, rank = length * np.nan_to_num(count, copy=False, nan=1.0), node.step_ranks[done]
        for each in pd.unique(rank):
            own = rank == each
            whole += float(np.fmax.reduce((start + time)[own]) - np.fmin.reduce(start[own]))
            ranks += 1
        for name in node.step_phases:
            seconds[name] += float(time[node.is_phase(name)[done]].sum())
    if not ranks:
        return {}
    means = {name: total / ranks for name, total in sorted(seconds.items()) if total}
    return {**means, "others": max(whole / ranks - sum(means.values()), 0.0)}


def job_seconds(frame: RunFrame) -> dict[str, float]:
    """Return the report's summary: `initialisation`, `loop`, `finalisation`; empty without steps.

    The last step may end after the last sample: finalisation is 0 then and not negative.
    """
    span = loop_span(frame)
    if span is None:
        return {}
    end = min(span.end_seconds, frame.duration_seconds)
    return {
        "initialisation": max(span.start_seconds, 0.0),
        "loop": max(end - span.start_seconds, 0.0),
        "finalisation": max(frame.duration_seconds - end, 0.0),
    }


def _relative_entropy(p: Floats, q: Floats) -> float:
    some = p > 0
    return float(np.sum(p[some] * np.log(p[some] / q[some])))


def _network(node: NodeFrame, resolution_seconds: float) -> pd.Series[float] | None:
    names = ("net.received_bytes_total", "net.sent_bytes_total")
    rates = [node.rate(name, resolution_seconds) for name in names]
    known = [series for series in rates if series is not None]
    return (known[0] + known[1]).dropna() if len(known) == len(names) else None


def _mean_of_all(table: pd.DataFrame, count: int) -> pd.Series[float] | None:
    """Return the mean over the columns at the ticks at which all of `count` are known."""
    if not count or len(table.columns) < count:
        return None
    return table.mean(axis=1, skipna=False).dropna()


def _memory_pct(node: NodeFrame) -> pd.Series[float] | None:
    reported = node.series("host.memory_used_pct")
    used, total = node.series("host.memory_used_bytes"), node.hardware.memory_bytes
    return 100 * used / total if reported is None and used is not None and total > 0 else reported
