"""The last minutes of a running node, a sample every few seconds, kept from one look to the next.

A look decodes only what has arrived since the one before it. Adding segments in any order gives the
same tail, and so does beginning again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pandas as pd
from trimtab.wire import PHASES, Block, Segment, StepBlock, StepSummary
from trimtab.wire.segment import Number

from advisor.store import segment_bodies
from advisor.store.index import SegmentRef
from advisor.store.room import RoomExceededError
from advisor.store.rows import GAP_FACTOR
from rules.evidence import is_counter
from rules.frame import EVENT_COLUMNS, STEP_COLUMNS, Hardware, NodeFrame
from rules.ticks import has_ticks

MOST_BYTES = 16 * 2**20
"""The most bytes of one tail; usual ones take 0.1 to 0.5 MiB."""
_NEVER, _OFFSETS = 0, 60_000
"""A cell without a sample, and the parts of a cell by which its samples are told apart."""
_NOT_WATCHED = "metric"
"""The only events that are many; no rule judges them in a window."""
_NO_STEPS = np.zeros((0, len(STEP_COLUMNS)))
Key = tuple[str, int]
"""Session and number of a segment. What they hold never changes."""


@dataclass(frozen=True)
class _Part:
    """The things that one segment brought beside its samples."""

    end_ms: int
    steps: np.ndarray
    """float64, a row each: `STEP_COLUMNS`, with the phase as its number, the start in Unix s."""
    events: list[tuple[float, str, dict[str, object]]]

    @property
    def size_bytes(self) -> int:
        return 500 + self.steps.nbytes + 500 * len(self.events)


class RunTail:
    """Cells of `cell_ms` from the Unix epoch. Each holds the last sample in it, as if the node had
    been sampled so rarely; steps are sums of those that begin in one cell.

    Only series of `rules.ticks` are kept.
    """

    def __init__(self, cell_ms: int, cells: int) -> None:
        self._cell_ms = cell_ms
        self._first = 0
        self._places: dict[str, int] = {}
        self._reach: list[int] = []
        self._values = np.full((0, cells), np.nan)
        self._offsets = np.full((0, cells), _NEVER, dtype=np.uint16)
        self._parts: dict[Key, _Part] = {}

    @property
    def size_bytes(self) -> int:
        """Return about what it takes in memory."""
        parts = sum(part.size_bytes for part in self._parts.values())
        return self._values.nbytes + self._offsets.nbytes + parts

    def holds(self, key: Key) -> bool:
        return key in self._parts

    def has_others(self, keys: Iterable[Key]) -> bool:
        """Return whether it holds a segment that isn't among these."""
        return not self._parts.keys() <= set(keys)

    def move_to(self, start_ms: int) -> None:
        """Begin at the cell of this time; what ended before it is dropped."""
        first = start_ms // self._cell_ms
        count = min(max(first - self._first, 0), self._values.shape[1])
        if count:
            for table, empty in ((self._values, np.nan), (self._offsets, _NEVER)):
                table[:, : table.shape[1] - count] = table[:, count:].copy()
                table[:, table.shape[1] - count :] = empty
        self._first = max(first, self._first)
        kept = {key: part for key, part in self._parts.items() if part.end_ms >= start_ms}
        self._parts = kept

    def add(self, ref: SegmentRef, body: bytes) -> None:
        """Add a segment.

        Raises:
            trimtab.wire.WireError: the body is not a segment.
            TooLargeError: the tail takes more than `MOST_BYTES` now. It can't be used again.
        """
        segment = segment_bodies.decode_body(body)
        start_us = ref.start_us
        for block in segment.blocks:
            self._add_block(block, start_us // 1000, segment)
        end_ms = start_us // 1000 + ref.duration_ms
        rows = [self._summed(block, start_us) for block in segment.steps if block.start_us]
        rows += [_of_summary(each, start_us) for each in segment.step_summaries]
        events = [
            (start_us / 1e6 + event.time_ms / 1e3, event.kind, event.data)
            for event in segment.events
            if event.kind != _NOT_WATCHED
        ]
        self._parts[ref.session_id, ref.seq] = _Part(
            end_ms, np.concatenate([_NO_STEPS, *rows]), events
        )
        if self.size_bytes > MOST_BYTES:
            raise RoomExceededError(f"more than {MOST_BYTES >> 20} MiB in a node's last minutes")

    def skip(self, ref: SegmentRef) -> None:
        """Leave out a segment that can't be read; its time is unknown."""
        end_ms = ref.start_us // 1000 + ref.duration_ms
        self._parts[ref.session_id, ref.seq] = _Part(end_ms, _NO_STEPS, [])

    def node_frame(
        self, key: str, hardware: Hardware, intervals: Sequence[tuple[float, float]], end_ms: int
    ) -> NodeFrame:
        """Return the frame from the first cell to `end_ms`; `intervals` in seconds since the start
        of that cell.
        """
        count = min(max(-(-end_ms // self._cell_ms) - self._first, 0), self._values.shape[1])
        began = self._first * self._cell_ms / 1000
        return NodeFrame(
            key=key,
            hardware=hardware,
            samples=self._samples(count),
            steps=_step_table([part.steps for part in self._parts.values()], began),
            events=_event_table(chain.from_iterable(p.events for p in self._parts.values()), began),
            intervals=tuple(intervals),
        )

    def _samples(self, count: int) -> pd.DataFrame:
        values = self._values[:, :count].copy()
        names = list(self._places)
        known = ~np.isnan(values)
        whole = np.zeros(len(values))
        if count:
            whole += count - known[:, ::-1].argmax(axis=1) - known.argmax(axis=1)
        for place in np.flatnonzero(known.any(axis=1) & (known.sum(axis=1) < whole)):
            _fill(values[place], self._reach[place], is_counter(names[place]))
        index = pd.Index(np.arange(count) * (self._cell_ms / 1000), name="seconds")
        return pd.DataFrame(values.T, index=index, columns=names, copy=False)

    def _add_block(self, block: Block, start_ms: int, segment: Segment) -> None:
        columns = _watched(block)
        times = np.array(block.times_ms, dtype=np.int64) + start_ms
        cells = times // self._cell_ms - self._first
        order = np.arange(len(times))
        lasts = order[np.diff(cells, append=np.iinfo(np.int64).max) > 0]
        lasts = lasts[(cells[lasts] >= 0) & (cells[lasts] < self._values.shape[1])]
        if not len(lasts) or not columns:
            return
        reach = _reach(times, segment.duration_ms, self._cell_ms)
        rows = self._places_of(columns, reach)
        found = np.array(
            [[_last_known(c, cells, at) for at in lasts.tolist()] for c in columns.values()],
            dtype=np.float64,
        )
        where = rows[:, None], cells[lasts][None, :]
        within = times[lasts] % self._cell_ms * _OFFSETS // self._cell_ms + 1
        offsets = within.astype(np.uint16)[None, :]
        newer = ~np.isnan(found) & (offsets > self._offsets[where])
        self._values[where] = np.where(newer, found, self._values[where])
        self._offsets[where] = np.where(newer, offsets, self._offsets[where])

    def _places_of(self, names: Iterable[str], reach: int) -> np.ndarray:
        """Return the rows of these series, which are added if they are new."""
        new = [name for name in names if name not in self._places]
        if new:
            self._places |= {name: len(self._places) + n for n, name in enumerate(new)}
            shape = len(new), self._values.shape[1]
            self._values = np.vstack([self._values, np.full(shape, np.nan)])
            never = np.full(shape, _NEVER, dtype=np.uint16)
            self._offsets = np.vstack([self._offsets, never])
            self._reach += [reach] * len(new)
        places = [self._places[name] for name in names]
        for place in places:
            self._reach[place] = max(self._reach[place], reach)
        return np.array(places)

    def _summed(self, block: StepBlock, start_us: int) -> np.ndarray:
        """Return the steps that begin in the same cell as one row, with their means."""
        starts = np.array(block.start_us, dtype=np.int64) + start_us
        tokens = block.tokens or [None] * len(starts)
        measured = (block.duration_us, block.data_wait_us, block.samples, tokens)
        columns = np.array(measured, dtype=np.float64)
        firsts = np.flatnonzero(np.diff(starts // (1000 * self._cell_ms), prepend=-1))
        counts = np.diff(firsts, append=len(starts))
        duration, wait, *sums = np.add.reduceat(columns, firsts, axis=1)
        same = np.full((2, len(firsts)), [[block.rank], [PHASES.index(block.phase)]])
        times = duration / counts / 1e6, wait / counts / 1e6
        known, tokens = sums
        return np.stack([*same, starts[firsts] / 1e6, *times, known, counts, tokens], axis=1)


def _watched(block: Block) -> dict[str, list[Number]]:
    """Return the columns of the series that are kept. Of a summary it has a gauge's mean, and a
    counter's maximum, which is its value at that moment.
    """
    columns: dict[str, list[Number]] = {}
    for full, column in block.columns.items():
        name, _, part = full.partition(":")
        if part in ("", "max" if is_counter(name) else "mean") and has_ticks(name):
            columns[name] = column
    return columns


def _last_known(column: list[Number], cells: np.ndarray, at: int) -> Number:
    """Return the last known value at or before a place, of the same cell."""
    place = at
    while column[place] is None and place > 0 and cells[place - 1] == cells[at]:
        place -= 1
    return column[place]


def _reach(times_ms: np.ndarray, duration_ms: int, cell_ms: int) -> int:
    """Return how many cells without a sample are no gap."""
    spacing = int(np.diff(times_ms).min()) if len(times_ms) > 1 else duration_ms
    return max(int(GAP_FACTOR * spacing) // cell_ms, 1)


def _fill(values: np.ndarray, reach: int, is_rising: bool) -> None:
    """Fill holes that are no gaps: a gauge stays, a counter rises evenly."""
    known = np.flatnonzero(~np.isnan(values))
    width = np.diff(known)
    is_hole = (width > 1) & (width <= reach + 1)
    pairs = zip(known[:-1][is_hole].tolist(), known[1:][is_hole].tolist(), strict=True)
    for left, right in pairs:
        if not is_rising:
            values[left:right] = values[left]
        elif values[right] >= values[left]:
            values[left:right] = np.linspace(values[left], values[right], right - left + 1)[:-1]


def _of_summary(summary: StepSummary, start_us: int) -> np.ndarray:
    wait, count = summary.data_wait_sum_us, summary.count
    row = (
        summary.rank,
        PHASES.index(summary.phase),
        start_us / 1e6 + summary.start_ms / 1e3,
        summary.duration_sum_us / count / 1e6,
        np.nan if wait is None else wait / count / 1e6,
        np.nan if summary.samples is None else summary.samples,
        count,
        np.nan if summary.tokens is None else summary.tokens,
    )
    return np.array([row], dtype=np.float64)


def _step_table(parts: Sequence[np.ndarray], began: float) -> pd.DataFrame:
    rows = np.concatenate([_NO_STEPS, *parts])
    rank, phase, start, duration, wait, samples, count, tokens = rows[np.lexsort(rows.T[[0, 2]])].T
    columns = (
        rank.astype("int32"),
        pd.Categorical.from_codes(phase.astype("int8"), dtype=pd.CategoricalDtype(list(PHASES))),
        start - began,
        duration,
        wait,
        samples,
        count.astype("int32"),
        tokens,
    )
    return pd.DataFrame(dict(zip(STEP_COLUMNS, columns, strict=True)), copy=False)


def _event_table(events: Iterable[tuple[float, str, object]], began: float) -> pd.DataFrame:
    ordered = sorted(events, key=lambda event: event[0])
    at, kinds, data = zip(*ordered, strict=True) if ordered else ((), (), ())
    times = np.array(at, dtype=np.float64) - began
    table = (times, pd.Series(kinds, dtype="str"), pd.Series(data, dtype="object"))
    return pd.DataFrame(dict(zip(EVENT_COLUMNS, table, strict=True)))
