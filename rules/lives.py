"""The lives of a run's processes: each from the end of the one before to its own end.

A life ends when a session ends, when a machine goes silent and another one continues, or when a
launcher replaces its processes. Ends without a start in between are one end: the first that failed
tells why. What a failure cost is the work of its life that was done again, and the time of the
next life until its first step: see `rules.ledger`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rules.failure_causes import CAUSES, UNKNOWN, cause_of
from rules.frame import NodeFrame, RunFrame
from rules.restarts import replacements
from rules.training_loop import events_of

FINISHED, STOPPED, REPLACED, SILENT, OPEN = "finished", "stopped", "replaced", "silent", ""
"""Ends that are no failure by themselves. REPLACED: a process loaded a checkpoint and continued.
SILENT: the machine sent nothing more and another one continued. OPEN: no end is known."""
FAILURES = frozenset(CAUSES)
SETTLED = (FINISHED, STOPPED, REPLACED)
TOGETHER_SECONDS = 60.0
"""Nodes that end within this time of each other end together, even if one has started again."""
NEAR_SECONDS = 1.0
"""Times of events are cut to milliseconds; sessions end a moment after their last event."""


@dataclass(frozen=True)
class RunLife:
    began_seconds: float
    """The end of the life before; 0: the start of the run."""
    ended_seconds: float
    ending: str
    """One of `CAUSES`, or one of the ends above."""
    node: str
    """The key of the node that ended first; empty: none did."""

    @property
    def has_failed(self) -> bool:
        """Return whether it needed to be started again. A silent machine may have been
        reclaimed.
        """
        return self.ending in FAILURES or self.ending == SILENT


@dataclass(frozen=True)
class _End:
    at_seconds: float
    began_seconds: float
    """The start of what ended."""
    ending: str | None
    """The way in which it ended; None if it failed."""
    node: str
    data: dict[str, Any]


def lives(frame: RunFrame) -> list[RunLife]:
    """Return the lives in order, without gaps; the last one is open if no end of it is known."""
    return frame.once(_lives)


def _lives(frame: RunFrame) -> list[RunLife]:
    found: list[RunLife] = []
    for ends in _together(frame):
        began = found[-1].ended_seconds if found else 0.0
        ended = max(end.at_seconds for end in ends)
        failed = [end for end in ends if end.ending not in SETTLED]
        first = (failed or ends)[0]
        found.append(RunLife(began, ended, _ending(frame, began, ended, first), first.node))
    began = found[-1].ended_seconds if found else 0.0
    if (
        not found
        or frame.duration_seconds > began + TOGETHER_SECONDS
        or _starts_after(frame, began)
    ):
        found.append(RunLife(began, max(frame.duration_seconds, began), OPEN, ""))
    return found


def _ending(frame: RunFrame, began: float, ended: float, first: _End) -> str:
    if first.ending in SETTLED:
        return first.ending or UNKNOWN
    cause = cause_of(frame, began, ended, first.data)
    return SILENT if first.ending == SILENT and cause == UNKNOWN else cause


def _together(frame: RunFrame) -> Iterator[list[_End]]:
    """Yield the ends that count as one, in order."""
    starts = sorted(at for node in frame.nodes.values() for at in _starts(node))
    together: list[_End] = []
    for end in sorted(_ends(frame, starts), key=lambda each: each.at_seconds):
        if together and not _is_same(together, end, starts):
            yield together
            together = []
        together.append(end)
    if together:
        yield together


def _is_same(together: Sequence[_End], end: _End, starts: Sequence[float]) -> bool:
    """Return whether the end counts as one with the others. What began after the first end is
    another life.
    """
    if end.began_seconds > together[0].at_seconds:
        return False
    is_near = end.at_seconds - together[0].at_seconds <= TOGETHER_SECONDS
    last = together[-1].at_seconds
    return is_near or not any(last < at <= end.at_seconds for at in starts)


def _starts(node: NodeFrame) -> list[float]:
    """Return the starts of sessions and processes."""
    processes = [at for at, _ in events_of(node, "process_start")]
    replaced = [each.began_seconds for each in replacements(node)]
    return [*(start for start, _ in node.intervals), *processes, *replaced]


def _starts_after(frame: RunFrame, seconds: float) -> bool:
    return any(at > seconds for node in frame.nodes.values() for at in _starts(node))


def _ends(frame: RunFrame, starts: Sequence[float]) -> Iterator[_End]:
    for node in frame.nodes.values():
        began = sorted(_starts(node))
        for at, ending, data in _told_ends(node, starts):
            since = max((start for start in began if start < at), default=0.0)
            yield _End(at, since, ending, node.key, data)


_Told = tuple[float, str | None, dict[str, Any]]
"""Moment, ending and data of an end."""


def _told_ends(node: NodeFrame, starts: Sequence[float]) -> Iterator[_Told]:
    told = [*_session_ends(node)]
    sessions = [at for at, _, _ in told]
    told += [each for each in _process_ends(node) if not _is_near(each[0], sessions)]
    yield from told
    known = [at for at, _, _ in told]
    for each in replacements(node):
        seen, began = each.last_seen_seconds, each.began_seconds
        if each.is_within_session and not any(seen <= at <= began for at in known):
            yield seen, None if each.is_known else REPLACED, {}
    for _, end in node.intervals:
        is_continued = any(at > end + NEAR_SECONDS for at in starts)
        if is_continued and not _is_near(end, known):
            yield end, SILENT, {}


def _session_ends(node: NodeFrame) -> Iterator[_Told]:
    for at, data in events_of(node, "session_end"):
        if state := data.get("state"):
            ending = state if state in (FINISHED, STOPPED) else None
            yield at, STOPPED if data.get("rule") else ending, data


def _process_ends(node: NodeFrame) -> Iterator[_Told]:
    for at, data in events_of(node, "process_exit"):
        if isinstance(code := data.get("exit_code"), int):
            yield at, None if code else FINISHED, data


def _is_near(at: float, others: Sequence[float]) -> bool:
    return any(abs(at - other) <= TOGETHER_SECONDS for other in others)
