"""The reports of the training itself: a step, a phase, a metric. It works then, whatever its cores
and GPUs do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from rules.activity import last_step_end_seconds
from rules.frame import NodeFrame, RunFrame
from rules.grid import Floats
from rules.training_loop import events_of, phase_spans

KINDS = ("metric", "epoch", "checkpoint", "restore", "compile", "phase_begin", "phase_end")
"""The events that only a training at work causes."""
A_STEP = "The training reports a step in this time."
A_PHASE = "The training reports a phase in this time."
AN_EVENT = "The training reports a metric, an epoch or a checkpoint in this time."
ANY_STEP = "The training reports steps: other rules judge it."
GPU_MEMORY = "The training reports memory that it allocated on the GPU."
FACTS = (A_STEP, A_PHASE, AN_EVENT, ANY_STEP, GPU_MEMORY)
"""The facts that exclude the findings of rules that declare them (`Rule.ruled_out_by`)."""


def told_moments(frame: RunFrame) -> Floats:
    """Return when the training told something other than a step, in order."""
    return frame.once(_told_moments)


def _told_moments(frame: RunFrame) -> Floats:
    nodes = frame.nodes.values()
    moments = [at for node in nodes for kind in KINDS for at, _ in events_of(node, kind)]
    return np.sort(np.array(moments, dtype=float))


def untold(flags: pd.Series[bool], frame: RunFrame) -> pd.Series[bool]:
    """Return the flags, cleared at the ticks in which the training told something other than a
    step.
    """
    moments = told_moments(frame)
    places = np.searchsorted(flags.index.to_numpy(dtype=float), moments, side="right") - 1
    is_untold = np.ones(len(flags), dtype=bool)
    is_untold[places[places >= 0]] = False
    return flags & is_untold


def last_told_seconds(frame: RunFrame) -> float | None:
    """Return the end of the last step or phase, or the last event; None if the training told
    nothing.
    """
    ends = [end for node in frame.nodes.values() for end in _ends(node, frame.duration_seconds)]
    last = max([*ends, *told_moments(frame)[-1:].tolist()], default=None)
    return None if last is None else min(last, frame.duration_seconds)


def _ends(node: NodeFrame, end_seconds: float) -> Iterator[float]:
    """Yield the end of the node's last step, and of the last time in each of its phases."""
    last_step = last_step_end_seconds(node)
    if last_step is not None:
        yield last_step
    for phase in {str(data.get("phase")) for _, data in events_of(node, "phase_begin")}:
        yield from (span.end_seconds for span in phase_spans(node, phase, end_seconds)[-1:])


def told_gpus(node: NodeFrame) -> set[int]:
    """Return the GPUs that the training says it uses: it allocated memory, and holds it on
    these.
    """
    if not any(data.get("peak_allocated_bytes") for _, data in events_of(node, "gpu_memory")):
        return set()
    gpus = node.allocated_gpus()
    held = {n: node.series(f"gpu{n}.tree_memory_used_bytes") for n in gpus}
    own = {n for n, used in held.items() if used is not None and used.max() > 0}
    return own or set(gpus if len(gpus) == 1 else [])
