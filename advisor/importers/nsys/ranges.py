"""NVTX ranges of Nsight Systems' export: annotations of the program, and the steps among them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from advisor.importers.activity import own_times
from advisor.importers.nsys import tables
from advisor.importers.nsys.database import Database, Row
from advisor.importers.operator_times import OperatorTimes
from advisor.importers.recording import NotImportableError, Whole
from advisor.importers.tally import Tally
from advisor.importers.trace_events import MOST_US, Operators

CATEGORY = "NVTX ranges"
_TABLE = "NVTX_EVENTS"
_PUSH_POP, _START_END = 59, 60
"""Values of `eventType` that are ranges, by thread or by process."""
_MOST_RANGES = 1_000_000
"""The most ranges of a file: 200 MB while they are read."""
_LATER = ("eventType", "globalTid", "textId")
"""Columns that earlier versions may lack."""
_STEP = re.compile(
    r"(?:[\w ]{0,40}[ _]|profiler)?(?:step|iter(?:ation)?|batch)[ _#:=\-\[(]*\d{1,12}[\])]?",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"\d+")
_FEWEST_STEPS = 2


_Row = tuple[Any, Any, Any, Any]
"""Start, end, text or its number, and thread."""


class Range(NamedTuple):
    """Microseconds since the session began."""

    start_us: float
    end_us: float
    name: str
    thread: int
    """The global thread id."""


def ranges_of(database: Database, tally: Tally, where: str) -> list[Range]:
    """Return all ranges of a file that have begun and ended."""
    if not database.has(_TABLE, "start", "end", "text"):
        return []
    rows: list[_Row] = []
    try:
        for batch in database.texts(_TABLE, _columns(database), "text"):
            rows += [row for row in map(_row, batch) if row is not None]
            if len(rows) > _MOST_RANGES:
                tally.skip("ranges", f"more than {_MOST_RANGES:,}", len(rows) - _MOST_RANGES, where)
                del rows[_MOST_RANGES:]
                break
    except NotImportableError as error:
        tally.skip("tables", str(error), 1, f"{where}, {_TABLE}")
    named = _texts(database, rows, tally, where)
    found = [each for each in (_range(row, named) for row in rows) if each is not None]
    why = "no name, or an impossible duration or time"
    tally.skip("ranges", why, len(rows) - len(found), where)
    return found


def add_up(
    ranges: Iterable[Range], operators: Operators, times: OperatorTimes, node: str, base_us: float
) -> None:
    """Add up the time of each range, and its own time, without the ranges inside it.

    Args:
        base_us: what to add to their times, for Unix microseconds.
    """
    by_thread: dict[int, list[Range]] = defaultdict(list)
    for each in ranges:
        by_thread[each.thread].append(each)
    for own in by_thread.values():
        for each, own_us, outer in own_times(own):
            name = _listed_name(each)
            operators.add(CATEGORY, name, each.end_us - each.start_us, own_us)
            start_us, end_us = each.start_us + base_us, each.end_us + base_us
            times.add(node, CATEGORY, name, start_us, end_us)
            if outer is not None:
                end_us = min(end_us, outer.end_us + base_us)
                times.add(node, CATEGORY, _listed_name(outer), start_us, end_us, sign=-1)


def _listed_name(each: Range) -> str:
    """Return the name under which a range is listed: all steps are one operator."""
    return _DIGITS.sub("#", each.name) if _STEP.fullmatch(each.name) else each.name


def steps_of(ranges: Iterable[Range]) -> Iterator[tuple[int, list[Range]]]:
    """Yield process id and its steps: ranges named alike but for a number, such as `step 12`.

    Of several such names it takes those of the thread that took the most time. They don't overlap.
    """
    alike: dict[tuple[int, str, int], list[Range]] = defaultdict(list)
    for each in ranges:
        if _STEP.fullmatch(each.name):
            name = _DIGITS.sub("#", each.name)
            alike[tables.pid_of(each.thread), name, each.thread].append(each)
    best: dict[int, list[Range]] = {}
    for (pid, _, _), own in sorted(alike.items()):
        if len(own) >= _FEWEST_STEPS and _length(own) > _length(best.get(pid, [])):
            best[pid] = own
    for pid, own in sorted(best.items()):
        yield pid, list(_apart(own))


def _apart(steps: list[Range]) -> Iterator[Range]:
    until = -np.inf
    for each in sorted(steps):
        if each.start_us >= until:
            until = each.end_us
            yield each


def _length(ranges: Iterable[Range]) -> float:
    return sum(each.end_us - each.start_us for each in ranges)


def _columns(database: Database) -> list[str]:
    """Return the names of the columns; empty for those that this version lacks."""
    return ["start", "end", *(name if database.has(_TABLE, name) else "" for name in _LATER)]


def _row(row: Row) -> _Row | None:
    """Return the row, or None for a mark, a domain, a counter, or a range that never ended."""
    start, end, kind, thread, text_id, text = row
    if kind not in (None, _PUSH_POP, _START_END) or end is None:
        return None
    return start, end, text if isinstance(text, str) else text_id, thread or 0


def _texts(database: Database, rows: Iterable[_Row], tally: Tally, where: str) -> dict[int, str]:
    ids = {name for _, _, name, _ in rows if isinstance(name, int)}
    wanted: Whole = np.array(sorted(ids), dtype="int64")
    return tables.strings(database, wanted, tally, where)


def _range(row: _Row, named: Mapping[int, str]) -> Range | None:
    start, end, name, thread = row
    text = named.get(name, "") if isinstance(name, int) else name
    if not isinstance(start, int) or not isinstance(end, int) or not isinstance(thread, int):
        return None
    if not text or not -MOST_US * 1000 <= start <= end <= MOST_US * 1000:
        return None
    return Range(start / 1000, end / 1000, text[:200], thread)
