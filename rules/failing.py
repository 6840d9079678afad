"""When a run's processes failed, and what was lost each time."""

from __future__ import annotations

from dataclasses import dataclass

from rules.checkpoints import checkpoint_spans
from rules.frame import NodeFrame, RunFrame
from rules.loop import events_of

TOGETHER_SECONDS = 60.0
"""Nodes that fail within so much time of each other failed once."""


@dataclass(frozen=True)
class Failure:
    at_seconds: float
    lost_seconds: float
    """Since the last checkpoint, or since the failure or start before it."""


def failures(frame: RunFrame) -> list[Failure] | None:
    """In order. None: no end of any process was told."""
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
    found: list[Failure] = []
    for at in sorted(at for at, failed in ends if failed):
        if found and at - found[-1].at_seconds <= TOGETHER_SECONDS:
            continue
        before = found[-1].at_seconds if found else 0.0
        since = max([before, *(t for t in (*saved, *starts) if before < t < at)])
        found.append(Failure(at, at - since))
    return found


def _ends(node: NodeFrame) -> list[tuple[float, bool]]:
    """Each end of a process of the node, and whether it was a failure.

    A session says how it ended; where it doesn't, the exit code of its process does.
    """
    told = [
        (at, data.get("state") == "failed")
        for at, data in events_of(node, "session_end")
        if data.get("state")
    ]
    exits = [
        (at, data.get("exit_code") != 0)
        for at, data in events_of(node, "process_exit")
        if isinstance(data.get("exit_code"), int)
    ]
    near = [t for t, _ in told]
    return told + [e for e in exits if not any(abs(e[0] - t) <= TOGETHER_SECONDS for t in near)]
