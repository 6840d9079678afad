"""Finds when a run saved checkpoints: as recorded, or as inferred from its disks and GPUs."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rules.activity import used_gpu_pct
from rules.evidence import series_after
from rules.frame import GPU_IN_USE_PCT, NodeFrame, RunFrame
from rules.intervals import intervals_where, mean_within, merge_windows
from rules.rule import Window
from rules.training_loop import began_of, events_of, phase_spans

BURST_FACTOR = 5.0
BURST_BYTES_PER_SECOND = 20e6
BRIDGE_SECONDS = 2.0
ASYNCHRONOUS_PCT = 50.0
WRITES = (
    ("disk.written_bytes_total", "disk.write_bytes_total", "tree.written_bytes_total"),
    ("nfs.write_bytes_total",),
    ("lustre.write_bytes_total",),
)
"""The first known series of each group counts; the groups are added."""
_FINGERPRINT = re.compile(r"[0-9a-f]{16}\Z")


@dataclass(frozen=True)
class CheckpointFile:
    """A file that a process saved, or that it had loaded before its first step."""

    at_seconds: float
    fingerprint: str
    """The fingerprint of its content; equal wherever it was copied."""
    is_loaded: bool


def checkpoint_files(node: NodeFrame) -> list[CheckpointFile]:
    """Return the files in order of time, the saved ones first."""
    return [
        CheckpointFile(at, data["fingerprint"], is_loaded)
        for kind, is_loaded in (("checkpoint_saved", False), ("checkpoint_loaded", True))
        for at, data in began_of(node, kind)
        if _FINGERPRINT.match(str(data.get("fingerprint")))
    ]


def checkpoint_spans(node: NodeFrame, end_seconds: float) -> list[Window]:
    """Return each recorded checkpoint: its phase, or the `seconds` before its event."""
    timed = [
        Window(max(at - seconds, 0.0), at)
        for at, data in events_of(node, "checkpoint")
        if (seconds := _number(data.get("seconds"))) is not None
    ]
    return list(merge_windows([*timed, *phase_spans(node, "checkpoint", end_seconds)], 0.5))


def best_interval_seconds(checkpoint_seconds: float, between_failures_seconds: float) -> float:
    """Return the work between two checkpoints that costs least time (Daly 2006, higher order)."""
    cost, mean = checkpoint_seconds, between_failures_seconds
    if cost >= 2 * mean:
        return mean
    ratio = cost / (2 * mean)
    root = math.sqrt(2 * cost * mean)
    return max(root * (1 + math.sqrt(ratio) / 3 + ratio / 9) - cost, 1.0)


def written_bytes_per_second(node: NodeFrame, resolution_seconds: float) -> pd.Series[float] | None:
    """Return the rate to disks and network file systems together; None if unknown."""
    return node.once(_written_bytes_per_second, resolution_seconds)


def _written_bytes_per_second(
    node: NodeFrame, resolution_seconds: float
) -> pd.Series[float] | None:
    group_rates = []
    for group in WRITES:
        rates = (node.rate(name, resolution_seconds) for name in group)
        first = next((each for each in rates if each is not None), None)
        group_rates += [first] if first is not None else []
    if len(group_rates) > 1:
        return pd.concat(group_rates, axis=1).sum(axis=1)
    return group_rates[0] if group_rates else None


def write_bursts(node: NodeFrame, resolution_seconds: float) -> list[Window] | None:
    """Return the time of writing at five times the median rate and 20 MB/s; None if the rate is
    unknown.
    """
    return node.once(_write_bursts, resolution_seconds)


def _write_bursts(node: NodeFrame, resolution_seconds: float) -> list[Window] | None:
    written = written_bytes_per_second(node, resolution_seconds)
    if written is None:
        return None
    work = series_after(written, node.warm_up_end_seconds())
    if work is None:
        return []
    limit = max(BURST_FACTOR * float(np.median(work)), BURST_BYTES_PER_SECOND)
    return intervals_where(work >= limit, resolution_seconds, bridge_seconds=BRIDGE_SECONDS)


def checkpoint_stalls(node: NodeFrame, frame: RunFrame) -> tuple[list[Window], bool] | None:
    """Return each checkpoint that stopped the node, and whether the run recorded its checkpoints.

    Recorded, by this node or else by another one: all except those during which the node's GPUs
    kept working (saved in the background). Not recorded: bursts of writing while the GPUs were
    idle, after which they worked again. None if neither is known.
    """
    times = frame.duration_seconds, frame.resolution_seconds
    return node.once(_checkpoint_stalls, *times, _told_by_others(node, frame))


def _checkpoint_stalls(
    node: NodeFrame, end_seconds: float, every: float, by_others: tuple[Window, ...]
) -> tuple[list[Window], bool] | None:
    recorded = checkpoint_spans(node, end_seconds) or list(by_others)
    gpu = used_gpu_pct(node)
    if recorded:
        known = [0.0 if gpu is None else mean_within(gpu, w, every) for w in recorded]
        pairs = zip(recorded, known, strict=True)
        return [w for w, pct in pairs if not (pct or 0.0) > ASYNCHRONOUS_PCT], True
    bursts = write_bursts(node, every)
    if bursts is None or gpu is None:
        return None
    last_use = float(gpu.index[gpu >= GPU_IN_USE_PCT].max())
    before = [w for w in bursts if w.end_seconds <= last_use]
    return [w for w in before if (mean_within(gpu, w, every) or 0.0) < GPU_IN_USE_PCT], False


def _told_by_others(node: NodeFrame, frame: RunFrame) -> tuple[Window, ...]:
    """Return the checkpoints that only other nodes recorded: one rank saves, all wait for it."""
    if checkpoint_spans(node, frame.duration_seconds):
        return ()
    others = (other for other in frame.nodes.values() if other is not node)
    spans = (span for each in others for span in checkpoint_spans(each, frame.duration_seconds))
    return merge_windows(spans)


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and np.isfinite(value) and value >= 0 else None
