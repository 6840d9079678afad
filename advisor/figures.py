"""The figures of a run that lists and comparisons show, from its frame."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from advisor.costing.metric_cost import DirectionOf, improvements
from advisor.model_flops import ModelFlops, model_flops
from advisor.phases import phase_seconds
from advisor.run_summary import Trouble
from advisor.troubles import troubles
from advisor.work_done import metric_values, work_done
from rules.activity import own_cores
from rules.evidence import percentile_of
from rules.frame import RunFrame
from rules.ledger import WasteLedger
from rules.lost_steps import RunSteps
from rules.metric_direction import less_is_better
from rules.processes import memory_bytes
from rules.starvation import starved_share
from rules.training_loop import events_of

MOST_METRICS = 20
"""The most metrics whose progress is kept, because every list of runs reads it."""


@dataclass(frozen=True)
class Figures:
    """None is "not measured". Shares are 0..1, percentages 0..100."""

    steps: int | None
    step_seconds_p50: float | None
    data_wait_share: float | None
    cpu_busy_p95_pct: float | None
    cores_busy_p95: float | None
    starved_share: float | None
    memory_p99_bytes: float | None
    disk_bytes_per_second_p95: float | None
    """Read and written, as the highest of any node."""
    network_bytes_per_second_p95: float | None
    """The rate in the busier direction."""
    gpu_busy_p95_pct: float | None
    work: dict[str, float]
    metrics: dict[str, float]
    metric_progress: dict[str, list[list[float]]]
    """See `metric_cost.improvements`."""
    phase_seconds: dict[str, float]
    troubles: list[Trouble]
    model_flops: ModelFlops | None


def figures(
    frame: RunFrame,
    direction: DirectionOf = less_is_better,
    steps: RunSteps | None = None,
    ledger: WasteLedger | None = None,
) -> Figures:
    """Return all figures of a run.

    Args:
        frame: may be empty.
        direction: tells which values of a metric are better.
        steps: the run's numbered steps; those that were done again are no work.
        ledger: the run's; None: evaluations and checkpoints are told from no other time.
    """
    training = _training(frame)
    return Figures(
        steps=int(training["count"].to_numpy().sum()) if len(training) else None,
        step_seconds_p50=_weighted_median(training),
        data_wait_share=_data_wait_share(training),
        cpu_busy_p95_pct=_highest(frame, "host.cpu_busy_pct", 95),
        cores_busy_p95=_cores_busy(frame),
        starved_share=_starved_share(frame),
        memory_p99_bytes=_memory(frame),
        disk_bytes_per_second_p95=_disk(frame),
        network_bytes_per_second_p95=_network(frame),
        gpu_busy_p95_pct=_gpu_busy(frame),
        work=work_done(frame, training, steps),
        metrics=_metrics(frame),
        metric_progress=_metric_progress(frame, direction, steps),
        phase_seconds=phase_seconds(frame, training, ledger),
        troubles=troubles(frame),
        model_flops=model_flops(frame, training),
    )


def _training(frame: RunFrame) -> pd.DataFrame:
    """Return the training steps; the very table if there are no others."""
    return frame.steps if frame.is_train.all() else frame.steps[frame.is_train]


def _weighted_median(steps: pd.DataFrame) -> float | None:
    if not len(steps):
        return None
    lengths = steps["duration_seconds"].to_numpy(dtype=float)
    order = np.argsort(lengths)
    counted = np.cumsum(steps["count"].to_numpy()[order])
    return float(lengths[order[np.searchsorted(counted, counted[-1] / 2)]])


def _data_wait_share(steps: pd.DataFrame) -> float | None:
    columns = ("data_wait_seconds", "duration_seconds", "count")
    wait, length, count = (steps[name].to_numpy(dtype=float) for name in columns)
    known = ~np.isnan(wait)
    total = float(np.nansum(length[known] * count[known]))
    if total <= 0:
        return None
    return float(np.nansum(wait[known] * count[known])) / total


def _percentile(values: pd.Series, percentile: float) -> float | None:
    known = values.to_numpy(dtype=float)
    known = known[~np.isnan(known)]
    return percentile_of(known, percentile) if len(known) else None


def _highest(frame: RunFrame, series: str, percentile: float) -> float | None:
    return _highest_of([node.series(series) for node in frame.nodes.values()], percentile)


def _highest_of(each: Iterable[pd.Series | None], percentile: float) -> float | None:
    """Return the highest percentile of any node."""
    found = [_percentile(known, percentile) for known in each if known is not None]
    return max((value for value in found if value is not None), default=None)


def _cores_busy(frame: RunFrame) -> float | None:
    """Return the run's own cores, the highest p95 of any node."""
    step = frame.resolution_seconds
    return _highest_of([own_cores(node, step) for node in frame.nodes.values()], 95)


def _starved_share(frame: RunFrame) -> float | None:
    """Return the highest share of any node."""
    found = [starved_share(node, frame.resolution_seconds) for node in frame.nodes.values()]
    return max((share for share in found if share is not None), default=None)


def _memory(frame: RunFrame) -> float | None:
    """Return what the run needs, the highest p99 of any node."""
    step = frame.resolution_seconds
    return _highest_of([memory_bytes(node, step) for node in frame.nodes.values()], 99)


def _disk(frame: RunFrame) -> float | None:
    step = frame.resolution_seconds
    each = [
        (node.rate("disk.read_bytes_total", step), node.rate("disk.written_bytes_total", step))
        for node in frame.nodes.values()
    ]
    return _highest_of(
        [read if written is None else read + written for read, written in each if read is not None],
        95,
    )


def _network(frame: RunFrame) -> float | None:
    names, step = ("net.received_bytes_total", "net.sent_bytes_total"), frame.resolution_seconds
    return _highest_of([node.rate(n, step) for node in frame.nodes.values() for n in names], 95)


def _gpu_busy(frame: RunFrame) -> float | None:
    """Return the p95 over all samples of all allocated GPUs together."""
    columns = [
        known
        for node in frame.nodes.values()
        for i, gpu in enumerate(node.hardware.gpus)
        if gpu.allocated and (known := node.gpu_busy_pct(i)) is not None
    ]
    return percentile_of(np.concatenate(columns, dtype=float), 95) if columns else None


def _metrics(frame: RunFrame) -> dict[str, float]:
    """Return the last finite value of each user metric."""
    last_values: dict[str, float] = {}
    for data in _event_data(frame, "metric"):
        name, value = data.get("name"), data.get("value")
        if isinstance(name, str) and isinstance(value, float) and np.isfinite(value):
            last_values[name] = value
    return last_values


def _metric_progress(
    frame: RunFrame, direction: DirectionOf, steps: RunSteps | None
) -> dict[str, list[list[float]]]:
    """Return the improvements by name. A value that was reached in steps which were done again
    isn't reached yet.
    """
    points: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for seconds, name, value in metric_values(frame, steps):
        points[name].append((seconds, value))
    names = sorted(points)[:MOST_METRICS]
    progress = {name: improvements(name, points[name], direction) for name in names}
    return {name: points for name, points in progress.items() if points}


def _event_data(frame: RunFrame, kind: str) -> list[dict[str, Any]]:
    """Return the data of all nodes' events, in order of time."""
    events = [event for node in frame.nodes.values() for event in events_of(node, kind)]
    return [data for _, data in sorted(events, key=lambda event: event[0])]
