"""Finds when a run's processes failed, and the work that each failure lost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rules.activity import work_began
from rules.checkpoints import checkpoint_spans
from rules.frame import NodeFrame, RunFrame
from rules.intervals import merge_windows, subtract_windows, total_seconds
from rules.restarts import process_restarts, restore_spans
from rules.rule import Window
from rules.stages import start_up
from rules.training_loop import events_of

TOGETHER_SECONDS = 60.0
"""Nodes that fail within this time of each other count as one failure."""


@dataclass(frozen=True)
class Failure:
    at_seconds: float
    lost_seconds: float
    """The work since the last checkpoint, or the previous failure or start: without the time in
    which the run started up, which a restart needs again."""


def failures(frame: RunFrame) -> list[Failure] | None:
    """Return the failures in order. None if no process recorded its end."""
    ends = [end for node in frame.nodes.values() for end in _ends(node)]
    if not ends:
        return None
    saved = sorted(
        span.end_seconds
        for node in frame.nodes.values()
        for span in checkpoint_spans(node, frame.duration_seconds)
    )
    starts = sorted(
        at for node in frame.nodes.values() for at, _ in events_of(node, "process_start")
    )
    in_order: list[Failure] = []
    for at in sorted(at for at, failed in ends if failed):
        if in_order and at - in_order[-1].at_seconds <= TOGETHER_SECONDS:
            continue
        before = in_order[-1].at_seconds if in_order else 0.0
        since = max([before, *(t for t in (*saved, *starts) if before < t < at)])
        in_order.append(Failure(at, _worked_seconds(frame, Window(since, at))))
    return in_order


def _worked_seconds(frame: RunFrame, span: Window) -> float:
    """Return the time of the span without starting up, as a mean over the nodes."""
    starts = [_starting(node, frame.duration_seconds) for node in frame.nodes.values()]
    return float(np.mean([total_seconds(subtract_windows([span], each)) for each in starts]))


def _starting(node: NodeFrame, end_seconds: float) -> list[Window]:
    """Return when the node started up, was started again or loaded a checkpoint."""
    waits, begins = process_restarts(node)
    first = start_up(node, node.warm_up_end_seconds()) if work_began(node) else []
    return list(merge_windows([*first, *waits, *begins, *restore_spans(node, end_seconds)]))


def _ends(node: NodeFrame) -> list[tuple[float, bool]]:
    """Return when each process of the node ended, and whether it failed.

    The session's own state decides; without it, the exit code of its process.
    """
    sessions = [
        (at, data.get("state") == "failed")
        for at, data in events_of(node, "session_end")
        if data.get("state")
    ]
    exits = [
        (at, data.get("exit_code") != 0)
        for at, data in events_of(node, "process_exit")
        if isinstance(data.get("exit_code"), int)
    ]
    near = [t for t, _ in sessions]
    return sessions + [e for e in exits if not any(abs(e[0] - t) <= TOGETHER_SECONDS for t in near)]
