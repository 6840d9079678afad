"""Writes the rows of segments, those of many uploads in one transaction.

What the segments refer to is made first, as far as it is missing. Then one statement inserts a row
where everything holds: the session is of this node, run and workspace; its number and its time are
new. `explain` says what doesn't hold where no row was written.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone
from trimtab.wire import FIRST_PIECE

from webapp.analysis import queue
from webapp.database.listed import execute_with_rows
from webapp.directives import delivery
from webapp.ingest import known_sessions, own_runs, uploaders
from webapp.ingest.explain import IS_DOUBLED
from webapp.ingest.known_sessions import KnownSession
from webapp.ingest.upload import Upload
from webapp.runs import progress, registration
from webapp.runs.models import Run, Segment, Session

MOST_TOGETHER = 100
"""The most rows of one transaction; other writers wait for it."""

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
WHERE NOT IS_DOUBLED
ON CONFLICT (session_id, seq) DO NOTHING
RETURNING session_id, seq, sha256
""".replace("IS_DOUBLED", IS_DOUBLED)

Identity = tuple[UUID, int, str]
"""A segment's session, number and SHA-256."""


@dataclass(frozen=True)
class RowAnswer:
    is_new: bool
    """False if no row was written."""
    may_be_asked: bool
    """True if directives of the segment's attempt exist."""


@dataclass
class _Waiting:
    upload: Upload
    answer: RowAnswer | Exception | None = None


class CommitTurn:
    """One commit at a time. The thread whose turn it is writes the rows of all that wait, so they
    share the commit and the waiting for the disk.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._waiting: list[_Waiting] = []

    def write_rows(self, uploads: Sequence[Upload]) -> list[RowAnswer | Exception]:
        """Write the rows of segments whose objects are written. Returns after the commit.

        Returns:
            For each in turn an answer, or what the database raises for its row.
        """
        own = [_Waiting(upload) for upload in uploads]
        self._waiting.extend(own)
        if own:
            with self._turn:
                while own[-1].answer is None:  # the rows are written in this order
                    batch = self._waiting[:MOST_TOGETHER]
                    del self._waiting[: len(batch)]
                    _write_batch(batch)
        return [each.answer for each in own if each.answer is not None]


write_rows = CommitTurn().write_rows


def _write_batch(batch: list[_Waiting]) -> None:
    """Write the rows together or, if that fails, each alone, so that none fails the others."""
    try:
        answers = _write_together([each.upload for each in batch])
    except Exception as error:
        if len(batch) == 1:
            batch[0].answer = error
            return
        for each in batch:
            _write_batch([each])
        return
    for each, answer in zip(batch, answers, strict=True):
        each.answer = answer


def _write_together(uploads: Sequence[Upload]) -> list[RowAnswer]:
    with transaction.atomic():
        made = _Made(uploads)
        written, news = _insert(uploads), []
        for upload in uploads:
            # If two are the same, one was written.
            news.append(_identity(upload) in written)
            written.discard(_identity(upload))
        new = [upload for upload, is_new in zip(uploads, news, strict=True) if is_new]
        if new:
            _follow(new, made)
        asked = delivery.sessions_with_directives({upload.session_id for upload in uploads})
    known_sessions.remember_sessions(made.sessions)
    return [RowAnswer(n, u.session_id in asked) for u, n in zip(uploads, news, strict=True)]


class _Made:
    """The sessions of uploads: known, or made here with their runs, attempts and nodes."""

    def __init__(self, uploads: Sequence[Upload]) -> None:
        """Make what is missing, and lock the runs."""
        self._known = known_sessions.find_sessions(upload.session_id for upload in uploads)
        firsts = {u.session_id: u for u in reversed(uploads) if u.session_id not in self._known}
        missing = list(reversed(firsts.values()))
        named = [(u.run_id, u.workspace, u.segment.job) for u in missing]
        self.runs = {run.pk for run in registration.make_runs(named)} if named else set()
        progress.lock_runs({upload.run_id for upload in uploads})
        self.sessions = _make_sessions(missing) if missing else {}

    def session_of(self, upload: Upload) -> KnownSession:
        return self.sessions.get(upload.session_id) or self._known[upload.session_id]


def _make_sessions(uploads: Sequence[Upload]) -> dict[UUID, KnownSession]:
    """Make the sessions of these first segments, except in runs of other workspaces."""
    owners = own_runs.find_owners({upload.run_id for upload in uploads})
    own = [upload for upload in uploads if owners.get(upload.run_id) == upload.workspace.pk]
    firsts = [registration.FirstSegment(each.segment, each.clock_offset_ms) for each in own]
    sessions = registration.make_sessions(firsts)
    uploaders.remember_uploaders(
        [(each.token, each.run_id) for each in own if each.token is not None]
    )
    return {
        made.pk: KnownSession(upload.workspace.pk, upload.run_id, made.corrected_started_at)
        for upload, made in zip(own, sessions, strict=True)
    }


def _identity(upload: Upload) -> Identity:
    return upload.session_id, upload.segment.seq, upload.sha256


def _insert(uploads: Sequence[Upload]) -> set[Identity]:
    """Insert the rows and return the identities of those that were written. A piece is inserted by
    itself, because its time is compared with the rows before it.
    """
    written: set[Identity] = set()
    for is_piece, group in groupby(uploads, lambda upload: upload.segment.seq >= FIRST_PIECE):
        for rows in ([each] for each in group) if is_piece else [[*group]]:
            written |= _insert_rows(rows)
    return written


def _insert_rows(uploads: Iterable[Upload]) -> set[Identity]:
    json_type = Segment._meta.get_field("refused").db_type(connection) or "text"
    now = timezone.now()
    rows = [{**upload.row, "received_at": now} for upload in uploads]
    values = [[*row.values()] for row in rows]
    written = execute_with_rows([*rows[0]], values, _INSERT.replace("JSON_TYPE", json_type))
    return {(UUID(str(session)), seq, sha256) for session, seq, sha256 in written}


def _follow(new: Sequence[Upload], made: _Made) -> None:
    """Bring sessions, runs and the queue of analyses up to date with new rows."""
    changed = progress.extend_runs([_reached(each, made) for each in new], timezone.now())
    told = [upload for upload in new if upload.has_facts]
    for upload in told:
        session = Session.objects.select_for_update().get(pk=upload.session_id)
        progress.keep_facts(session, upload.segment)
        delivery.record_outcomes(session, upload.segment)
    changed |= {upload.run_id for upload in told}
    if changed:
        progress.derive_runs(changed)
    changed |= {upload.run_id for upload in new if upload.session_id in made.sessions}
    _queue(Counter(upload.run_id for upload in new), made.runs, changed)


def _reached(upload: Upload, made: _Made) -> progress.ReachedEnd:
    start, end = made.session_of(upload).started_at, timedelta(milliseconds=upload.end_ms)
    return progress.ReachedEnd(upload.run_id, upload.session_id, upload.end_ms, start, start + end)


def _queue(counts: Counter[UUID], made: set[UUID], changed: set[UUID]) -> None:
    queue.want_new({run_id: count for run_id, count in counts.items() if run_id in made})
    others = {run_id: count for run_id, count in counts.items() if run_id not in made}
    queue.want_running({run: count for run, count in others.items() if run not in changed})
    for run in Run.objects.filter(pk__in=changed & others.keys()) if changed else ():
        queue.queue_run(run)
        queue.enqueue_on_commit(run)
