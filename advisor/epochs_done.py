"""Counts how many epochs a run got done: whole ones, and of each other the part that was done.

An epoch is whole if the same process told the next one. Of the others, the steps that count are
divided by the steps of an epoch: the median of the run's whole ones, else what the loader's length
(`epoch_length` events) makes. An epoch whose length isn't known isn't counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from rules.frame import NodeFrame, RunFrame
from rules.global_steps import EVENT_SECONDS, NodeSteps, Rows, restarts_of
from rules.lost_steps import RunSteps, run_steps
from rules.rule import Window
from rules.training_loop import events_of, training_columns

_Part = tuple[float, float, bool]
"""Begin and end of an epoch of a process, and whether it was done from its beginning to its end."""
_SLACK_SECONDS = 2e-6
"""Times of steps are rounded to microseconds."""
_SLACK_SHARE = 0.01
"""The most of an epoch that may be missing because steps are told by the second."""


@dataclass(frozen=True)
class _Epoch:
    """The steps of one process from one told beginning of an epoch to the next."""

    made: float
    kept: float
    """The steps without those that were done again later."""
    is_whole: bool
    told: float | None
    """The steps that the loader's length makes."""
    slack: float
    """Steps that may be missing: a last one isn't made of too few batches."""

    def done(self, usual: float | None) -> float | None:
        """Return the part that was done, or None if the length of an epoch isn't known."""
        if self.is_whole:
            return self.kept / self.made
        length = usual or self.told
        if not length:
            return None
        slack = max(1.0, min(self.slack, _SLACK_SHARE * length))
        return 1.0 if self.kept > length - slack else self.kept / length


_WITHOUT_STEPS = _Epoch(made=1.0, kept=1.0, is_whole=True, told=None, slack=0.0)
"""A whole epoch of a run that tells no steps."""


@dataclass(frozen=True)
class _Process:
    """The epochs of one training process, and when its steps were."""

    node: str
    span: Window
    epochs: tuple[_Epoch, ...]


def epochs_done(frame: RunFrame, steps: RunSteps | None) -> float | None:
    """Return the epochs without those parts that were done again; None if unknown.

    Args:
        steps: the run's numbered steps; None: nothing is known to be lost.
    """
    epochs = [epoch for each in _leading(_processes(frame, steps)) for epoch in each.epochs]
    whole = [epoch.made for epoch in epochs if epoch.is_whole]
    usual = median(whole) if whole else None
    done = [part for epoch in epochs if (part := epoch.done(usual)) is not None]
    return round(sum(done), 6) if done else None


def _leading(processes: list[_Process]) -> Iterator[_Process]:
    """Yield one process at a time: the others of an attempt do the same epochs."""
    lead: _Process | None = None
    for each in sorted(processes, key=lambda each: (each.span.start_seconds, each.node)):
        if lead is None or each.span.start_seconds >= lead.span.end_seconds - EVENT_SECONDS:
            lead = each
            yield each


def _processes(frame: RunFrame, steps: RunSteps | None) -> list[_Process]:
    nodes, lost = (steps or run_steps(frame)).nodes, steps.lost_seconds() if steps else {}
    found = (_processes_of(key, own, lost.get(key, ())) for key, own in nodes.items())
    return [process for own in found for process in own]


def _processes_of(key: str, steps: NodeSteps, lost: Sequence[Window]) -> Iterator[_Process]:
    """Yield the processes of the node that told an epoch."""
    node = steps.node
    events = events_of(node, "epoch")
    rank = min((_rank(data) for _, data in events), default=None)
    if rank is None:
        return
    rows, lengths = steps.rows, _told_lengths(node, rank, steps.rank)
    restarts = restarts_of(node, rank)
    cuts = [each.at_seconds for each in restarts if each.is_process]
    for begin, end in pairwise([-np.inf, *cuts, np.inf]):
        told = [
            (at, data.get("number"))
            for at, data in events
            if _rank(data) == rank and begin <= at < end
        ]
        loads = (each for each in restarts if not each.is_process)
        resumes = any(begin <= each.at_seconds < end for each in loads)
        if told:
            parts = list(_parts(told, (begin, end), resumes=resumes))
            epochs = _epochs(parts, rows, lost, lengths)
            yield _Process(key, _span(rows, begin, end, told), tuple(epochs))


def _span(rows: Rows, begin: float, end: float, told: list[tuple[float, Any]]) -> Window:
    """Return the time of the process's steps; without any, that between its epochs."""
    inside = np.flatnonzero((rows[1] > begin) & (rows[1] <= end))
    if not len(inside):
        return Window(told[0][0], told[-1][0])
    return Window(float(rows[0][inside[0]]), float(rows[1][inside[-1]]))


def _epochs(
    parts: list[_Part],
    rows: Rows,
    lost: Sequence[Window],
    lengths: list[tuple[float, float | None]],
) -> Iterator[_Epoch]:
    """Yield the epochs in which a step ended; of a run without any steps, the whole ones."""
    if not len(rows[1]):
        yield from (_WITHOUT_STEPS for *_, is_whole in parts if is_whole)
        return
    for part in parts:
        epoch = _epoch(part, rows, lost, lengths)
        if epoch.made:
            yield epoch


def _parts(
    told: list[tuple[float, Any]], process: tuple[float, float], *, resumes: bool
) -> Iterator[_Part]:
    """Divide a process at its epochs; after a checkpoint the first may begin in the middle."""
    begin, end = process
    yield begin, told[0][0] + EVENT_SECONDS, False
    for place, (at, number) in enumerate(told):
        is_last = place + 1 == len(told)
        until, following = (end, number) if is_last else told[place + 1]
        is_whole = following != number and not (resumes and place == 0)
        yield at + EVENT_SECONDS, until + (0 if is_last else EVENT_SECONDS), is_whole


def _epoch(
    part: _Part,
    rows: Rows,
    lost: Sequence[Window],
    lengths: list[tuple[float, float | None]],
) -> _Epoch:
    begin, end, is_whole = part
    made = _ended(rows, end) - _ended(rows, begin)
    again = (
        _ended(rows, min(end, window.end_seconds + _SLACK_SECONDS))
        - _ended(rows, max(begin, window.start_seconds + _SLACK_SECONDS))
        for window in lost
        if window.end_seconds > begin and window.start_seconds < end
    )
    told = [length for at, length in lengths if at < end]
    slack = float(np.diff(rows[2], prepend=0.0).max())
    kept = max(made - sum(max(each, 0.0) for each in again), 0.0)
    return _Epoch(made, kept, is_whole, told[-1] if told else None, slack)


def _ended(rows: Rows, at: float) -> float:
    """Return how many steps had ended; a second's steps count with the part of it that is over."""
    starts, ends, done = rows
    row = int(np.searchsorted(ends, at, side="right"))
    before = float(done[row - 1]) if row else 0.0
    if row == len(ends) or (many := float(done[row]) - before) <= 1:
        return before
    part = (at - starts[row]) / max(ends[row] - starts[row], 1e-9)
    return before + many * min(max(float(part), 0.0), 1.0)


def _told_lengths(
    node: NodeFrame, rank: int, stepping: int | None
) -> list[tuple[float, float | None]]:
    """Return when the rank told an epoch's samples, and what steps they make; None: unknown."""
    counts, samples = training_columns(node, stepping, "count", "samples")
    a_step = float(samples.sum() / counts.sum()) if len(counts) else np.nan
    told = ((at, data) for at, data in events_of(node, "epoch_length") if _rank(data) == rank)
    return [(at, _length(data.get("samples"), a_step)) for at, data in told]


def _length(samples: Any, a_step: float) -> float | None:
    is_known = isinstance(samples, int) and samples > 0 and a_step > 0
    return samples / a_step if is_known else None


def _rank(data: dict[str, Any]) -> int:
    rank = data.get("rank")
    return rank if isinstance(rank, int) else 0
