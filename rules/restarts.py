"""Time that restarts cost within a held machine: waiting for the new process, loading its
checkpoint, and starting up again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rules.frame import NodeFrame
from rules.global_steps import first_rank, processes_of
from rules.intervals import merge_windows
from rules.rule import Window
from rules.training_loop import (
    began_of,
    events_of,
    phase_spans,
    seconds_of,
    training_columns,
)


def restore_spans(node: NodeFrame, end_seconds: float) -> list[Window]:
    """Return when checkpoints were loaded: the phase `restore`, or the `seconds` before its
    event.
    """
    timed = [
        Window(max(at - seconds, 0.0), at)
        for at, data in began_of(node, "restore")
        if (seconds := seconds_of(data.get("seconds"))) > 0
    ]
    return list(merge_windows([*timed, *phase_spans(node, "restore", end_seconds)]))


@dataclass(frozen=True)
class Replacement:
    """A process of a node that replaced another one within a session."""

    last_seen_seconds: float
    """The last sign of the old one."""
    began_seconds: float
    first_work_seconds: float
    """A step or an evaluation of the new one; without any, the end of the session."""
    is_known: bool
    """True if its launcher says so; False if it loaded a checkpoint before its first step."""
    is_within_session: bool


def replacements(node: NodeFrame) -> list[Replacement]:
    """Return the processes that replace others: the launcher says so, or they load a checkpoint
    before their first step. Others are the next command of a script.
    """
    return node.once(_replacements)


def process_restarts(node: NodeFrame) -> tuple[list[Window], list[Window]]:
    """Return for each process that replaced another one within a session: the time from the last
    sign of the old one to the first of the new one, and from there to its first step or evaluation.
    """
    found = replacements(node)
    waits = [Window(r.last_seen_seconds, r.began_seconds) for r in found if r.is_within_session]
    begins = [Window(r.began_seconds, max(r.first_work_seconds, r.began_seconds)) for r in found]
    return list(merge_windows(waits)), list(merge_windows(begins))


def _replacements(node: NodeFrame) -> list[Replacement]:
    return list(_found(node))


def _found(node: NodeFrame) -> Iterator[Replacement]:
    rank = first_rank(node)
    later = processes_of(node, rank)[1:]
    if not later:
        return
    ends = _step_ends(node, rank)
    starts = np.sort([*training_columns(node, rank, "start_seconds")[0], *_evaluations(node)])
    for restart, _ in later:
        at = restart.at_seconds
        following = starts[starts > at]
        first_work = float(following[0]) if len(following) else _session_end(node, at)
        if not restart.is_known and not _restores(node, at, first_work):
            continue
        seen = max(float(ends[ends <= at].max(initial=0.0)), _last_event(node, rank, at))
        yield Replacement(seen, at, first_work, restart.is_known, _same_session(node, seen, at))


def _restores(node: NodeFrame, since: float, until: float) -> bool:
    return any(since <= at <= until for at, _ in began_of(node, "restore"))


def _evaluations(node: NodeFrame) -> list[float]:
    begun = events_of(node, "phase_begin")
    return [at for at, data in begun if data.get("phase") == "evaluate"]


def _last_event(node: NodeFrame, rank: int | None, before: float) -> float:
    """Return the time of the rank's last event: what the machine itself reports continues without
    it.
    """
    seen = [
        at
        for events in node.events_by_kind.values()
        for at, data in events
        if at < before and data.get("rank") == rank
    ]
    return max(seen, default=0.0)


def _session_end(node: NodeFrame, at: float) -> float:
    return max((end for start, end in node.intervals if start <= at), default=at)


def _same_session(node: NodeFrame, first: float, second: float) -> bool:
    return any(start <= first and second <= end for start, end in node.intervals)


def _step_ends(node: NodeFrame, rank: int | None) -> np.ndarray[Any, np.dtype[np.float64]]:
    steps = node.steps[node.steps["rank"] == rank]
    counts = np.nan_to_num(steps["count"].to_numpy(dtype=float), nan=1.0)
    length = steps["duration_seconds"].to_numpy(dtype=float) * counts
    return np.asarray(steps["start_seconds"].to_numpy(dtype=float) + length)
