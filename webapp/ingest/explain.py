"""Explains why a segment got no row. Only reads."""

from __future__ import annotations

from trimtab.wire import FIRST_ADDED, FIRST_PIECE

from webapp.database.listed import execute_with_rows
from webapp.http.problems import Problem
from webapp.ingest.own_runs import find_owners, foreign_run
from webapp.ingest.upload import Upload
from webapp.runs.models import Segment, Session

IS_DOUBLED = """(
    (new.seq < FIRST_ADDED OR new.seq >= FIRST_PIECE)
    AND EXISTS (
        SELECT 1 FROM runs_segment AS piece
        WHERE piece.session_id = new.session_id AND piece.seq >= FIRST_PIECE
        AND piece.seq <> new.seq
        AND piece.start_ms < new.start_ms + new.duration_ms
        AND piece.start_ms + piece.duration_ms > new.start_ms
    )
    OR new.seq >= FIRST_PIECE AND EXISTS (
        SELECT 1 FROM runs_segment AS whole
        WHERE whole.session_id = new.session_id AND whole.seq < FIRST_ADDED
        AND whole.start_ms < new.start_ms + new.duration_ms
        AND whole.start_ms + whole.duration_ms > new.start_ms
    )
)""".replace("FIRST_ADDED", str(FIRST_ADDED)).replace("FIRST_PIECE", str(FIRST_PIECE))
"""True if some of a segment's time is here already, in a piece or, if it is one, in any segment. An
agent that got no answer for a segment may send it again in pieces. MLflow's metrics, whose numbers
are between those of segments and of pieces, may be of any time."""
_DOUBLED = "SELECT seq FROM new WHERE IS_DOUBLED".replace("IS_DOUBLED", IS_DOUBLED)
_COLUMNS = ("session_id", "seq", "start_ms", "duration_ms")


def explain_missing_row(upload: Upload) -> Segment | Problem | None:
    """Return the row that the segment has already, or why it is refused; None if neither."""
    owner = find_owners([upload.run_id]).get(upload.run_id)
    if owner not in (None, upload.workspace.pk):
        return foreign_run()
    session = Session.objects.filter(pk=upload.session_id).select_related("node__attempt").first()
    if session is None:
        return None
    if not _is_of_its_node(upload, session):
        detail = "This session belongs to another run or node."
        fix = "Create a new session id for each agent process."
        return Problem(409, detail, "session_id", fix, kind="session-conflict")
    row = session.segments.filter(seq=upload.segment.seq).first()
    if row is not None:
        return row if row.sha256 == upload.sha256 else _changed(row)
    return _doubled(upload)


def _is_of_its_node(upload: Upload, session: Session) -> bool:
    attempt, segment = session.node.attempt, upload.segment
    stored = attempt.run_id, attempt.number, session.node.machine_id
    return stored == (segment.run_id, segment.attempt, segment.machine_id)


def _changed(row: Segment) -> Problem:
    detail = (
        f"Segment {row.seq} of session {row.session_id} was already uploaded "
        "with different content."
    )
    fix = "Use each segment number once; never change a segment that was sent."
    return Problem(409, detail, "seq", fix, kind="segment-conflict")


def _doubled(upload: Upload) -> Problem | None:
    segment = upload.segment
    values = (upload.session_id, segment.seq, segment.start_ms, segment.duration_ms)
    if not execute_with_rows(_COLUMNS, [values], _DOUBLED):
        return None
    detail = f"The time of segment {segment.seq} was already uploaded under another number."
    fix = "Send each moment of a session once."
    return Problem(409, detail, "seq", fix, kind="segment-conflict")
