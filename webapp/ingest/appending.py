"""Writes the rows of segments whose sessions are known, with a handful of statements.

Nothing is asked first: a row is inserted where everything holds that the careful way asks for one
by one (the session is of this node, run and workspace; its number and its time are new). Where
something doesn't hold, no row is written, and the careful way finds out why.

The web server gathers the uploads of a moment, and has their rows committed together; so are those
that come while rows are being committed. Each waits for its own commit; a fleet's uploads share its
cost and the waiting for the disk.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone
from trimtab.wire import FIRST_PIECE

from webapp.analysis import queue
from webapp.database.listed import listed
from webapp.directives import delivery
from webapp.runs import progress
from webapp.runs.models import Run, Segment

MOST_TOGETHER = 100
"""The most rows of one transaction; other writers wait for it."""


@dataclass(frozen=True)
class Entry:
    """A segment that is to get a row; its object is written."""

    workspace_id: int
    run_id: UUID
    attempt: int
    machine_id: str
    session_id: UUID
    seq: int
    object_key: str
    sha256: str
    body_bytes: int
    sample_count: int
    start_ms: int
    duration_ms: int
    resolution_ms: int
    refused: str
    """The refused series as JSON."""
    received_at: datetime
    ends_at: datetime
    """The end of the segment by the machine's corrected clock."""

    @property
    def identity(self) -> tuple[UUID, int, str]:
        return self.session_id, self.seq, self.sha256


_COLUMNS = [each.name for each in fields(Entry)]
_values = attrgetter(*_COLUMNS)
_INSERT = """
INSERT INTO runs_segment (session_id, seq, object_key, sha256, body_bytes, sample_count, start_ms,
    duration_ms, resolution_ms, refused, received_at)
SELECT new.session_id, new.seq, new.object_key, new.sha256, new.body_bytes, new.sample_count,
    new.start_ms, new.duration_ms, new.resolution_ms, CAST(new.refused AS JSON_TYPE),
    new.received_at
FROM new
JOIN runs_session ON runs_session.id = new.session_id
JOIN runs_node ON runs_node.id = runs_session.node_id AND runs_node.machine_id = new.machine_id
JOIN runs_attempt ON runs_attempt.id = runs_node.attempt_id
    AND runs_attempt.number = new.attempt AND runs_attempt.run_id = new.run_id
JOIN runs_run ON runs_run.id = new.run_id AND runs_run.workspace_id = new.workspace_id
WHERE NOT EXISTS (
    SELECT 1 FROM runs_segment AS piece
    WHERE piece.session_id = new.session_id AND piece.seq >= %s
    AND piece.start_ms < new.start_ms + new.duration_ms
    AND piece.start_ms + piece.duration_ms > new.start_ms
)
ON CONFLICT (session_id, seq) DO NOTHING
RETURNING session_id, seq, sha256
"""


@dataclass(frozen=True)
class Appended:
    is_new: bool
    """False if no row was written."""
    may_be_asked: bool
    """True if directives of the segment's attempt exist."""


@dataclass
class _Waiting:
    entry: Entry
    outcome: Appended | Exception | None = None


class Together:
    """One commit at a time. The thread whose turn it is writes the rows of all that wait."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._waiting: list[_Waiting] = []

    def append(self, entries: Sequence[Entry]) -> list[Appended | Exception]:
        """Returns after the commit. Instead of an answer: what the database raises for a row."""
        own = [_Waiting(entry) for entry in entries]
        self._waiting.extend(own)
        if own:
            with self._turn:
                while own[-1].outcome is None:  # the rows are written in this order
                    batch = self._waiting[:MOST_TOGETHER]
                    del self._waiting[: len(batch)]
                    _write_all(batch)
        return [each.outcome for each in own if each.outcome is not None]


append = Together().append


def _write_all(batch: list[_Waiting]) -> None:
    """Write the rows together or, if that fails, each alone, so that none fails the others."""
    try:
        answers = _write([each.entry for each in batch])
    except Exception as error:
        if len(batch) == 1:
            batch[0].outcome = error
            return
        for each in batch:
            _write_all([each])
        return
    for each, answer in zip(batch, answers, strict=True):
        each.outcome = answer


def _write(entries: list[Entry]) -> list[Appended]:
    with transaction.atomic():
        progress.lock({entry.run_id for entry in entries})
        written = _insert(entries)
        news = []
        for entry in entries:
            # If two are the same, one was written.
            news.append(entry.identity in written)
            written.discard(entry.identity)
        _follow([entry for entry, is_new in zip(entries, news, strict=True) if is_new])
        asked = delivery.asked({entry.session_id for entry in entries})
    return [Appended(n, e.session_id in asked) for e, n in zip(entries, news, strict=True)]


def _insert(entries: list[Entry]) -> set[tuple[UUID, int, str]]:
    """Insert the rows and return the keys of those that were written."""
    json_type = Segment._meta.get_field("refused").db_type(connection) or "text"
    statement = _INSERT.replace("JSON_TYPE", json_type)
    written = listed(_COLUMNS, map(_values, entries), statement, FIRST_PIECE)
    return {(UUID(str(session)), seq, sha256) for session, seq, sha256 in written}


def _follow(new: Sequence[Entry]) -> None:
    """Update runs and sessions as the careful way does for a segment without facts about its
    session.
    """
    if not new:
        return
    reached = [
        progress.Reached(one.run_id, one.session_id, one.start_ms + one.duration_ms, one.ends_at)
        for one in new
    ]
    ended = progress.reached(reached, timezone.now())
    counts = Counter(entry.run_id for entry in new)
    queue.arrived({run_id: count for run_id, count in counts.items() if run_id not in ended})
    for run in Run.objects.filter(pk__in=ended) if ended else ():
        queue.want(run)
        queue.enqueue_on_commit(run)


def refused_json(refused: Sequence[tuple[str, str]]) -> str:
    return json.dumps(refused) if refused else "[]"
