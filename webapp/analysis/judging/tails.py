"""The last minutes of running nodes, kept in the memory of the worker between looks.

Any worker can look at any run: what it doesn't hold is read again. What is kept can't be stale,
because a segment never changes once it is acknowledged, and a tail that holds one which is gone
begins again.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from trimtab.wire import FIRST_ADDED, FIRST_PIECE, WireError

from advisor.machine import hardware
from advisor.store.index import SegmentRef, from_ms, to_ms
from advisor.store.objects import ObjectMissingError
from advisor.store.opening import open_store
from advisor.store.room import RoomExceededError
from advisor.store.tail import Key, RunTail
from rules.frame import RunFrame
from webapp.runs.history import facts
from webapp.runs.models import Node, Run, Segment, Session

CELL_MS = 5_000
"""The width of a cell: any rhythm that window rules look for is slower."""
LONGEST = timedelta(hours=1)
"""The longest tail: longer ones would take too much memory, and outlive the objects of compacted
segments."""
MOST_BYTES = 96 * 2**20
"""The most bytes of all tails of a worker process: some 500 nodes with a few GPUs each."""
UNUSED_SECONDS = 300.0
"""The time after which an unused tail is forgotten. Used ones stay: if there are more than fit,
it's better to keep the same ones than to begin all of them again, each time."""
PAGE, MOST_PAGES = 150, 20
_COLUMNS = ("seq", "start_ms", "duration_ms", "resolution_ms", "object_key")
Row = tuple[int, int, int, int, str]
Rows = dict[Key, tuple[Session, Row]]

logger = logging.getLogger(__name__)
Place = tuple[UUID, int, int, int]
"""Run, node, width and number of the cells."""
_tails: OrderedDict[Place, tuple[RunTail, float]] = OrderedDict()
"""The tails with the monotonic time of their last use; the last used ones at the end."""


class NoTailError(Exception):
    """Raised when the run's last minutes can't be read this way, but from all that is stored."""


def frame(run: Run, nodes: Sequence[Node], length: timedelta) -> tuple[RunFrame, datetime]:
    """Return the last `length` of a run, in whole cells, and when that begins.

    Raises NoTailError.
    """
    if length > LONGEST or run.started_at is None or run.ended_at is None:
        raise NoTailError
    end_ms = to_ms(run.ended_at)
    since_ms = max(end_ms - length // timedelta(milliseconds=1), to_ms(run.started_at))
    rows = {node.pk: _rows_of(node, since_ms) for node in nodes}
    cell_ms = max([CELL_MS, *(row[3] for own in rows.values() for _, row in own.values())])
    start_ms = since_ms - since_ms % cell_ms
    cells = length // timedelta(milliseconds=cell_ms) + 2
    frames = {}
    for node in nodes:
        tail = _tail((run.pk, node.pk, cell_ms, cells), rows[node.pk], start_ms)
        spans = tuple(_seconds(session, start_ms) for session in node.sessions.all())
        frames[node.key] = tail.node_frame(node.key, hardware(facts(node)), spans, end_ms)
    return RunFrame(cell_ms / 1000, (end_ms - start_ms) / 1000, False, frames), from_ms(start_ms)


def _tail(place: Place, rows: Rows, start_ms: int) -> RunTail:
    """Return the tail with these segments, of which only those are read that it didn't hold."""
    # The tail is taken out while it changes: one that is left half done is never used again.
    tail = _tails.pop(place, (None, 0.0))[0]
    if tail is not None:
        tail.move_to(start_ms)
    if tail is None or tail.has_others(rows):
        tail = RunTail(*place[2:])
        tail.move_to(start_ms)
    for key, (session, row) in rows.items():
        if not tail.holds(key):
            _add(tail, session, row)
    _keep(place, tail)
    return tail


def _keep(place: Place, tail: RunTail) -> None:
    now = time.monotonic()
    while _tails and next(iter(_tails.values()))[1] < now - UNUSED_SECONDS:
        _tails.popitem(last=False)
    if tail.size_bytes + sum(each.size_bytes for each, _ in _tails.values()) <= MOST_BYTES:
        _tails[place] = tail, now


def _rows_of(node: Node, since_ms: int) -> Rows:
    """Return the segments that reach into the time after `since_ms`. Raises NoTailError."""
    sessions = [each for each in node.sessions.all() if to_ms(each.interval[1]) >= since_ms]
    pairs = ((session, row) for session in sessions for row in _rows(session, since_ms))
    return {(str(session.pk), row[0]): (session, row) for session, row in pairs}


def _rows(session: Session, since_ms: int) -> Iterator[Row]:
    """Yield the session's segments, newest first: a long session has many, of which few are needed.

    Its pieces are numbered at random. What programs added by another way has no steps or samples.
    """
    within_ms = since_ms - to_ms(session.corrected_started_at)
    segments = Segment.objects.filter(session=session)
    pieces = segments.filter(seq__gte=FIRST_PIECE).values_list(*_COLUMNS)
    yield from (row for row in pieces if row[1] + row[2] >= within_ms)
    newest = segments.filter(seq__lt=FIRST_ADDED).order_by("-seq").values_list(*_COLUMNS)
    for page in range(MOST_PAGES):
        rows: list[Row] = list(newest[page * PAGE : (page + 1) * PAGE])
        reaching = [row for row in rows if row[1] + row[2] >= within_ms]
        yield from reaching
        if len(reaching) < PAGE:
            return
    raise NoTailError


def _add(tail: RunTail, session: Session, row: Row) -> None:
    seq, start_ms, duration_ms, _, key = row
    began_at = session.corrected_started_at
    ref = SegmentRef(key, str(session.pk), seq, began_at, start_ms, duration_ms)
    if not key:
        raise NoTailError
    try:
        tail.add(ref, open_store(settings.OBJECTS_URL).get(key))
    except RoomExceededError as error:
        raise NoTailError from error
    except (ObjectMissingError, WireError, OSError) as error:
        logger.warning("unreadable object", extra={"key": key, "error": str(error)})
        tail.skip(ref)


def _seconds(session: Session, start_ms: int) -> tuple[float, float]:
    start, end = ((to_ms(at) - start_ms) / 1000 for at in session.interval)
    return start, end
