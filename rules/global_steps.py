"""The numbers of a node's steps within the whole training, from what its processes told.

`global_step` events say how many steps the training had done at that moment, as callbacks,
`trimtab.step(number=...)` or the optimizer's own count know it. Steps between two of them are
counted. Without any, a process that loaded a checkpoint counts from the step in it, where that was
read (`restore` events), and the first process of a node counts from 1. Otherwise the numbers are
unknown, which is said and never guessed.

Times are those of the frame: seconds since the start of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rules.frame import NodeFrame
from rules.grid import Floats
from rules.rule import Window
from rules.step_ranges import CONTINUED, NEW, RESUMED, StepRange
from rules.training_loop import began_of, events_of, in_order, training_columns

EVENT_SECONDS = 0.001
"""Times of events are cut to milliseconds, those of steps are not."""
MOST_STEPS = 2**53
SUMMARISED_SECONDS = 1.5
"""The precision of a moment's count where steps are summarised by the second."""
Rows = tuple[Floats, Floats, Floats]
"""The rows of steps: start, end, and how many are done since the node's first."""
Told = NDArray[np.float64]
"""Rows of: the moment, the number told, and the steps done since the node's first."""
NOTHING_TOLD: Told = np.empty((0, 3))


@dataclass(frozen=True)
class Restart:
    """A moment at which the numbers may jump back."""

    at_seconds: float
    step: int | None
    """The number of steps that the training had done, if that was told."""
    is_known: bool
    """A checkpoint was loaded or a process restarted; False: a process began for some reason."""
    is_process: bool


@dataclass(frozen=True)
class _Part:
    """Rows [low, high), whose steps' numbers are `done` plus `offset`."""

    low: int
    high: int
    offset: float
    cause: Restart | None
    is_counted: bool = False


@dataclass(frozen=True)
class NodeSteps:
    """The training steps of the node's lowest rank, one row each (or `count` steps together)."""

    node: NodeFrame
    rank: int | None
    ranges: tuple[StepRange, ...]
    """The ranges in order of time. Steps of unknown number are in none."""
    offsets: tuple[float, ...]
    """The offset of each range: number minus the steps done since the node's first."""
    is_unknown: bool
    """Some steps are in no range."""

    @property
    def rows(self) -> Rows:
        """Make the rows, each time. Kept, they would be as large as all else that is known of the
        steps of a long run, and only lost steps need them.
        """
        return _rows(self.node, self.rank)

    def times_after_step(self, place: int, number: int) -> Window | None:
        """Return when the steps of this range after step `number` were made; None if there are
        none.
        """
        each = self.ranges[place]
        if number >= each.last:
            return None
        if number < each.first:
            return Window(each.began_us / 1e6, each.ended_us / 1e6)
        starts, ends, done = self.rows
        wanted = number - self.offsets[place]
        row = min(int(np.searchsorted(done, wanted + 0.5)), len(ends) - 1)
        before = done[row - 1] if row else 0.0
        part = (wanted - before) / max(done[row] - before, 1.0)
        start = starts[row] + part * (ends[row] - starts[row])
        return Window(float(start), each.ended_us / 1e6)

    def seconds_in(self, windows: Iterable[Window]) -> float:
        """Return the time of steps within the windows, which don't overlap."""
        starts, ends, _ = self.rows
        inside = (
            np.minimum(ends, w.end_seconds) - np.maximum(starts, w.start_seconds) for w in windows
        )
        return sum(float(each.clip(0.0).sum()) for each in inside)


def node_steps(node: NodeFrame) -> NodeSteps:
    """Return the node's numbered steps. A node without training steps has no rows and no ranges."""
    rank = first_rank(node)
    rows = _rows(node, rank)
    _, ends, done = rows
    ranges: list[StepRange] = []
    offsets: list[float] = []
    is_unknown = False
    told = _told(node, rank, rows) if len(ends) else NOTHING_TOLD
    for restart, low, high in _stretches(node, rank, ends, is_told=bool(len(told))):
        parts = list(_parts(restart, (low, high), done, told))
        is_unknown = is_unknown or not parts
        for part in parts:
            ranges.append(_range(part, rows, ranges[-1] if ranges else None))
            offsets.append(part.offset)
    return NodeSteps(node, rank, tuple(ranges), tuple(offsets), is_unknown)


def first_rank(node: NodeFrame) -> int | None:
    """Return the lowest rank with training steps, or None if there are none."""
    return node.once(_first_rank)


def _first_rank(node: NodeFrame) -> int | None:
    trained = node.step_ranks[node.is_phase("train")]
    untimed = [_rank(data) for _, data in events_of(node, "step_untimed")]
    ranks = [*([int(trained.min())] if len(trained) else []), *untimed]
    return min(ranks, default=None)


def restarts_of(node: NodeFrame, rank: int | None) -> list[Restart]:
    """Return what may have set the rank's count back, in order; not the node's own beginning."""
    found = [
        Restart(at, _whole(data.get("step")), True, False)
        for at, data in began_of(node, "restore")
        if _rank(data) == rank
    ]
    found += [each[0] for each in processes_of(node, rank)[1:]]
    found += [Restart(start, None, True, True) for start, _ in sorted(node.intervals)[1:]]
    return sorted(found, key=lambda each: (each.at_seconds, not each.is_process))


def processes_of(node: NodeFrame, rank: int | None) -> list[tuple[Restart, int]]:
    """Return the rank's processes in order, and how often the launcher had restarted each."""
    found: list[tuple[Restart, int]] = []
    for at, data in began_of(node, "rank"):
        if _rank(data) == rank:
            restarts = _whole(data.get("restarts")) or 0
            known = bool(found) and restarts > found[-1][1]
            found.append((Restart(at, None, known, True), restarts))
    return found


def _rows(node: NodeFrame, rank: int | None) -> Rows:
    names = ("start_seconds", "duration_seconds", "count")
    starts, ends, counts = training_columns(node, rank, *names)
    np.nan_to_num(counts, copy=False, nan=1.0)
    ends *= counts
    ends += starts
    untimed = [
        at
        for at, data in events_of(node, "step_untimed")
        if _rank(data) == rank and data.get("phase", "train") == "train"
    ]
    if untimed:
        starts, ends = np.append(starts, untimed), np.append(ends, untimed)
        counts = np.append(counts, np.ones(len(untimed)))
    ends, starts, counts = in_order(ends, starts, counts)
    return starts, ends, np.cumsum(counts, out=counts)


def _told(node: NodeFrame, rank: int | None, rows: Rows) -> Told:
    starts, ends, done = rows
    events = [
        (at, number)
        for at, data in events_of(node, "global_step")
        if _rank(data) == rank and (number := _whole(data.get("step"))) is not None
    ]
    if not events:
        return NOTHING_TOLD
    at = np.array([each for each, _ in events]) + EVENT_SECONDS
    row = np.searchsorted(ends, at)
    before = np.append(0.0, done)[row]
    last = np.minimum(row, len(ends) - 1)
    many = np.diff(done, prepend=0.0)[last]
    length = np.maximum(ends[last] - starts[last], 1e-9)
    part = np.where((row < len(ends)) & (many > 1), (at - starts[last]) / length, 0.0)
    return np.column_stack(
        [at, [number for _, number in events], np.floor(before + many * part.clip(0, 1))]
    )


def _stretches(
    node: NodeFrame, rank: int | None, ends: Floats, *, is_told: bool
) -> Iterator[tuple[Restart | None, int, int]]:
    """Yield the rows between two restarts. A checkpoint loaded in the middle of a process, of which
    no step is known, may be of another model: it is no restart unless numbers are told.
    """
    if not len(ends):
        return
    found: list[tuple[Restart | None, int]] = [(None, 0)]
    for each in restarts_of(node, rank):
        at = int(np.searchsorted(ends, each.at_seconds, side="right"))
        last, began = found[-1]
        if at == began:
            found[-1] = (_both(last, each), at)
        elif at < len(ends) and (each.is_process or each.step is not None or is_told):
            found.append((each, at))
    ends_at = [at for _, at in found[1:]] + [len(ends)]
    for (restart, low), high in zip(found, ends_at, strict=True):
        yield restart, low, high


def _both(first: Restart | None, second: Restart) -> Restart:
    """Return one restart for a process that restarts, and then loads its checkpoint."""
    if first is None:
        return second
    step = second.step if second.step is not None else first.step
    is_process = first.is_process or second.is_process
    return Restart(second.at_seconds, step, first.is_known or second.is_known, is_process)


def _parts(
    restart: Restart | None, rows: tuple[int, int], done: Floats, told: Told
) -> Iterator[_Part]:
    """Yield one stretch of rows, divided where the numbers told don't follow one another. Nothing
    if they are unknown.
    """
    low, high = rows
    before = float(done[low - 1]) if low else 0.0
    inside = told[(told[:, 2] > before) & (told[:, 2] <= done[high - 1])]
    offset, is_counted = _offset(restart, before, inside, is_first=low == 0)
    if offset is None:
        return
    begin, cause = low, restart
    for _, number, so_far in inside:
        row = int(np.searchsorted(done, so_far))
        if row > begin and abs(so_far + offset - number) > _slack(done, row):
            yield _Part(begin, row, offset, cause)
            begin, cause, offset = row, None, number - so_far
    yield _Part(begin, high, offset, cause, is_counted)


def _offset(
    restart: Restart | None, before: float, inside: Told, *, is_first: bool
) -> tuple[float | None, bool]:
    """Return the number minus the steps done, and whether it is only counted; None if unknown."""
    if len(inside):
        return float(inside[0, 1] - inside[0, 2]), False
    if restart is not None and restart.step is not None:
        return restart.step - before, False
    if is_first and (restart is None or not restart.is_known):
        return 0.0, True
    return None, False


def _slack(done: Floats, row: int) -> float:
    """Return by how many steps a number may be off: none where steps are known one by one."""
    many = done[row] - (done[row - 1] if row else 0.0)
    return SUMMARISED_SECONDS * float(many) if many > 1 else 0.5


def _range(part: _Part, rows: Rows, last: StepRange | None) -> StepRange:
    starts, ends, done = rows
    before = done[part.low - 1] if part.low else 0.0
    first = round(float(before + part.offset)) + 1
    if last is None or (part.cause is not None and part.cause.is_known):
        begins = RESUMED
    else:
        begins = CONTINUED if first > last.last else NEW
    return StepRange(
        began_us=round(float(starts[part.low]) * 1e6),
        ended_us=round(float(ends[part.high - 1]) * 1e6),
        first=first,
        last=round(float(done[part.high - 1] + part.offset)),
        begins=begins,
        is_counted=part.is_counted,
    )


def _rank(data: dict[str, Any]) -> int:
    return _whole(data.get("rank")) or 0


def _whole(value: Any) -> int | None:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value < MOST_STEPS else None
