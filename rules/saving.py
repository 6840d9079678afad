"""When a run saved its state: as it told, or as its disks and GPUs show."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rules.activity import used_gpu_pct
from rules.evidence import rate
from rules.frame import GPU_IN_USE_PCT, NodeFrame, RunFrame
from rules.intervals import intervals_where
from rules.loop import checkpoint_spans
from rules.rule import Window

BURST_FACTOR = 5.0
BURST_BYTES_PER_SECOND = 20e6
BRIDGE_SECONDS = 2.0
ASYNCHRONOUS_PCT = 50.0
WRITES = (
    ("disk.written_bytes_total", "disk.write_bytes_total", "tree.written_bytes_total"),
    ("nfs.write_bytes_total",),
    ("lustre.write_bytes_total",),
)
"""Of each group the first that is known; the groups add up."""


def written_bytes_per_second(node: NodeFrame, resolution_seconds: float) -> pd.Series[float] | None:
    """To disks and network file systems together; None: not known."""
    found = []
    for group in WRITES:
        rates = (rate(node.series(name), resolution_seconds) for name in group)
        first = next((each for each in rates if each is not None), None)
        found += [first] if first is not None else []
    return pd.concat(found, axis=1).sum(axis=1) if found else None


def bursts(node: NodeFrame, resolution_seconds: float) -> list[Window] | None:
    """Stretches of writing at five times the median and 20 MB/s; None: writing isn't known."""
    written = written_bytes_per_second(node, resolution_seconds)
    if written is None:
        return None
    work = written[written.index >= node.warm_up_end_seconds()]
    if not len(work):
        return []
    limit = max(BURST_FACTOR * float(np.median(work)), BURST_BYTES_PER_SECOND)
    return intervals_where(work >= limit, resolution_seconds, bridge_seconds=BRIDGE_SECONDS)


def stalls(node: NodeFrame, frame: RunFrame) -> tuple[list[Window], bool] | None:
    """Each saving for which the training stood still, and whether the run told of them.

    Told: each but those in which the GPUs went on working (saved in the background). Not told:
    bursts of writing while the GPUs idle. None: neither can be known.
    """
    told = checkpoint_spans(node, frame.duration_seconds)
    gpu = used_gpu_pct(node)
    if told:
        return [w for w in told if not _works_meanwhile(gpu, w)], True
    found = bursts(node, frame.resolution_seconds)
    if found is None or gpu is None:
        return None
    return [w for w in found if (_mean_within(gpu, w) or 0.0) < GPU_IN_USE_PCT], False


def _works_meanwhile(gpu: pd.Series[float] | None, window: Window) -> bool:
    mean = None if gpu is None else _mean_within(gpu, window)
    return mean is not None and mean > ASYNCHRONOUS_PCT


def _mean_within(series: pd.Series[float], window: Window) -> float | None:
    """Over the samples whose time lies wholly in the window; None: there is none."""
    inside = series[(series.index >= window.start_seconds) & (series.index < window.end_seconds)]
    return float(inside.mean()) if len(inside) else None
