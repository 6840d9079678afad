"""Derives the progress and state of runs from their sessions and segments.

`derive_state` has the rules; `extend_runs` applies them in SQL to the runs of a fleet at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet
from django.utils import timezone
from trimtab.wire import FIRST_ADDED, Segment

from webapp.database.listed import execute_with_rows
from webapp.database.prepared import Models, Slot
from webapp.runs import endings
from webapp.runs.models import Run, Session

OF_SESSIONS = ("started_at", "ended_at", "state", "stopped_by")
"""The columns of a run that `derive_state` sets."""
_OF_INTERVALS = ("started_at", "clock_offset_ms", "last_ms", "ended_ms")
_OF_ENDINGS = ("final_seq", "end_state", "end_rule", "node__attempt__number")
"""The columns of a session on which a run's state and its missing segments depend."""
TELLING = frozenset({"session_end", "stderr", "stage_begin", "stage_end"})
"""The kinds of events whose facts are stored with the session. Other segments only extend it."""
_LOCK_RUNS = """
SELECT runs_run.id FROM runs_run WHERE id IN (SELECT id FROM new) ORDER BY id FOR NO KEY UPDATE
"""
_EXTEND_SESSIONS = """
UPDATE runs_session
SET last_ms = CASE WHEN runs_session.last_ms > new.last_ms THEN runs_session.last_ms
    ELSE new.last_ms END
FROM new WHERE runs_session.id = new.id RETURNING runs_session.id, runs_session.ended_ms
"""
_EXTEND_RUNS = """
UPDATE runs_run SET last_received_at = new.now,
    state = CASE state WHEN 'lost' THEN 'running' ELSE state END,
    started_at = CASE WHEN started_at < new.starts_at THEN started_at ELSE new.starts_at END,
    ended_at = CASE WHEN ended_at > new.ends_at THEN ended_at ELSE new.ends_at END
FROM new WHERE runs_run.id = new.id RETURNING runs_run.id, runs_run.state
"""


@dataclass(frozen=True)
class ReachedEnd:
    """The moment up to which a new segment extends its session."""

    run_id: UUID
    session_id: UUID
    last_ms: int
    starts_at: datetime
    """The start of the session by the machine's corrected clock."""
    ends_at: datetime
    """The end of the segment by the same clock."""


def lock_runs(run_ids: Collection[UUID]) -> None:
    """Lock these runs, as `locks` has it, in one order. SQLite has one writer at a time anyway."""
    if connection.vendor != "sqlite":
        execute_with_rows(("id",), [[run_id] for run_id in run_ids], _LOCK_RUNS)


def extend_runs(segments: Sequence[ReachedEnd], now: datetime) -> set[UUID]:
    """Extend sessions and runs by new segments, in two statements.

    In a run that has not ended, the session that decides its state is open. So the run is running
    and only its start and end can change, to what `derive_state` makes them: a property test
    compares both.

    Returns:
        The runs for which that isn't so, or of which a session has ended: derive these.
    """
    sessions: dict[UUID, int] = {}
    runs: dict[UUID, tuple[datetime, datetime]] = {}
    for one in segments:
        sessions[one.session_id] = max(one.last_ms, sessions.get(one.session_id, 0))
        start, end = runs.get(one.run_id, (one.starts_at, one.ends_at))
        runs[one.run_id] = min(one.starts_at, start), max(one.ends_at, end)
    ends = execute_with_rows(("id", "last_ms"), sessions.items(), _EXTEND_SESSIONS)
    over = {UUID(str(session)) for session, ended_ms in ends if ended_ms is not None}
    moments = [(run_id, start, end, now) for run_id, (start, end) in runs.items()]
    states = execute_with_rows(("id", "starts_at", "ends_at", "now"), moments, _EXTEND_RUNS)
    ended = {UUID(str(run)) for run, state in states if state in Run.ENDED}
    return ended | {one.run_id for one in segments if one.session_id in over}


def keep_facts(session: Session, segment: Segment) -> None:
    """Store with the session what the segment's `TELLING` events say."""
    for event in segment.events:
        if event.kind == "session_end":
            session.ended_ms = segment.start_ms + event.time_ms
            session.final_seq = segment.seq
            session.end_state = _end_state(event.data.get("state"))
            session.end_rule = str(event.data.get("rule") or "")[:120]
            session.exit_code = _exit_code(event.data.get("exit_code"))
            session.ending = endings.ending(event.data)
    endings.keep_lines(session, segment)
    endings.keep_stages(session, segment)
    session.save()


def derive_runs(run_ids: Collection[UUID]) -> None:
    """Derive and save the state, start and end of these runs. They must be locked."""
    for run in Run.objects.filter(pk__in=run_ids):
        derive_state(run)
        run.save(update_fields=OF_SESSIONS)


def derive_state(run: Run, sessions: Sequence[Session] | None = None) -> None:
    """Set state, start and end of a run from its sessions. Any order gives the same answer.

    Args:
        sessions: all of the run's, with nodes and attempts; default: they are read.
    """
    if sessions is None:
        sessions = read_sessions(run)
    if not sessions:
        return
    intervals = [session.interval for session in sessions]
    run.started_at = min(start for start, _ in intervals)
    run.ended_at = max(end for _, end in intervals)
    deciding = _deciding(sessions)
    run.state = _state(run, deciding)
    run.stopped_by = _stopping_rule(deciding) if run.state == Run.STOPPED else ""


def mark_lost_runs(now: datetime) -> int:
    """Mark running runs that have been silent too long as lost, until they send again."""
    silent_since = now - timedelta(seconds=settings.LOST_AFTER_SECONDS)
    silent = Run.objects.filter(state=Run.RUNNING, last_received_at__lt=silent_since)
    return silent.update(state=Run.LOST)


def read_sessions(run: Run) -> list[Session]:
    """Return all of the run's sessions, with nodes and attempts, and the columns that are read
    here.
    """
    return _sessions_of_run(run=run.pk)


@Models
def _sessions_of_run() -> QuerySet[Session]:
    of_run = Session.objects.filter(node__attempt__run=Slot("run", Run._meta.pk))
    related = of_run.select_related("node__attempt")
    return related.only(*_OF_INTERVALS, *_OF_ENDINGS)


def count_missing_segments(sessions: Iterable[Session]) -> int:
    """Return the number of segments of ended sessions that exist but have not arrived."""
    ended = [session for session in sessions if session.final_seq is not None]
    # After its end, MLflow's clients may still log: then there are more than the last number says.
    known = ((session.final_seq or 0) + 1 - _own_segments(session) for session in ended)
    return sum(max(0, missing) for missing in known)


def _own_segments(session: Session) -> int:
    return session.segments.filter(seq__lt=FIRST_ADDED).count()


def _deciding(sessions: Sequence[Session]) -> list[Session]:
    """Return the last session of each node of the last attempt."""
    last: dict[int, Session] = {}
    newest = max(session.node.attempt.number for session in sessions)
    for session in sorted(sessions, key=lambda s: s.started_at):
        if session.node.attempt.number == newest:
            last[session.node_id] = session
    return list(last.values())


def _state(run: Run, deciding: list[Session]) -> str:
    if any(session.ended_ms is None for session in deciding):
        silent = timezone.now() - run.last_received_at
        return Run.LOST if silent.total_seconds() > settings.LOST_AFTER_SECONDS else Run.RUNNING
    if _stopping_rule(deciding):
        return Run.STOPPED
    states = {session.end_state for session in deciding}
    return next((s for s in (Run.FAILED, Run.STOPPED) if s in states), Run.FINISHED)


def _stopping_rule(deciding: list[Session]) -> str:
    """Return the rule that stopped one of the nodes, if any: the other nodes may fail because of
    it.
    """
    return next((session.end_rule for session in deciding if session.end_rule), "")


def _end_state(value: object) -> str:
    return str(value) if value in (Run.FINISHED, Run.FAILED, Run.STOPPED) else Run.FAILED


def _exit_code(value: object) -> int | None:
    return value if isinstance(value, int) and -(2**31) <= value < 2**31 else None
