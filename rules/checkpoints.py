"""When a run saved checkpoints: as recorded, or as inferred from its disks and GPUs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rules.activity import used_gpu_pct
from rules.evidence import after
from rules.frame import GPU_IN_USE_PCT, NodeFrame, RunFrame
from rules.intervals import intervals_where, mean_within, merged
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
    """Of its content; equal wherever it was copied."""
    is_loaded: bool


def checkpoint_files(node: NodeFrame) -> list[CheckpointFile]:
    """In order of time, the saved ones first."""
    return [
        CheckpointFile(at, data["fingerprint"], is_loaded)
        for kind, is_loaded in (("checkpoint_saved", False), ("checkpoint_loaded", True))
        for at, data in began_of(node, kind)
        if _FINGERPRINT.match(str(data.get("fingerprint")))
    ]


def checkpoint_spans(node: NodeFrame, end_seconds: float) -> list[Window]:
    """Each recorded checkpoint: its phase, or the `seconds` before its event."""
    timed = [
        Window(max(at - seconds, 0.0), at)
        for at, data in events_of(node, "checkpoint")
        if (seconds := _number(data.get("seconds"))) is not None
    ]
    return list(merged([*timed, *phase_spans(node, "checkpoint", end_seconds)], 0.5))


def written_bytes_per_second(node: NodeFrame, resolution_seconds: float) -> pd.Series[float] | None:
    """To disks and network file systems together; None: not known."""
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
    """Writing at five times the median rate and 20 MB/s; None: the write rate isn't known."""
    return node.once(_write_bursts, resolution_seconds)


def _write_bursts(node: NodeFrame, resolution_seconds: float) -> list[Window] | None:
    written = written_bytes_per_second(node, resolution_seconds)
    if written is None:
        return None
    work = after(written, node.warm_up_end_seconds())
    if work is None:
        return []
    limit = max(BURST_FACTOR * float(np.median(work)), BURST_BYTES_PER_SECOND)
    return intervals_where(work >= limit, resolution_seconds, bridge_seconds=BRIDGE_SECONDS)


def checkpoint_stalls(node: NodeFrame, frame: RunFrame) -> tuple[list[Window], bool] | None:
    """Each checkpoint that stopped the training, and whether the run recorded its checkpoints.

    Recorded: all except those during which the GPUs kept working (saved in the background). Not
    recorded: bursts of writing while the GPUs were idle. None: neither is known.
    """
    return node.once(_checkpoint_stalls, frame.duration_seconds, frame.resolution_seconds)


def _checkpoint_stalls(
    node: NodeFrame, end_seconds: float, every: float
) -> tuple[list[Window], bool] | None:
    recorded, gpu = checkpoint_spans(node, end_seconds), used_gpu_pct(node)
    if recorded:
        known = [0.0 if gpu is None else mean_within(gpu, w, every) for w in recorded]
        pairs = zip(recorded, known, strict=True)
        return [w for w, pct in pairs if not (pct or 0.0) > ASYNCHRONOUS_PCT], True
    bursts = write_bursts(node, every)
    if bursts is None or gpu is None:
        return None
    return [w for w in bursts if (mean_within(gpu, w, every) or 0.0) < GPU_IN_USE_PCT], False


def _number(value: Any) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and np.isfinite(value) and value >= 0 else None
