"""The careful way of a segment: it asks for everything, makes what is missing, and says why
something is refused."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet
from trimtab.wire import FIRST_ADDED, FIRST_PIECE, Segment

from advisor.store.opening import open_store
from webapp.accounts.models import Token, Workspace
from webapp.analysis import queue
from webapp.database.prepared import Slot, Values
from webapp.directives import delivery
from webapp.http.problems import Problem
from webapp.ingest import bounds, uploaders
from webapp.ingest.upload import Upload
from webapp.quotas import admission
from webapp.runs import models as rows
from webapp.runs import progress, registration


def store(
    workspace: Workspace, upload: Upload, token: Token | None, is_written: bool = False
) -> bool:
    """Ask for everything, make what is missing; True if the segment already was durable.

    Args:
        is_written: its object has just been written, and wasn't there before.
    """
    is_new = is_new_run(workspace, upload.segment.run_id)
    if not is_new and (known := _known(workspace, upload)):
        _heal(workspace, known, upload, is_written)
        return True
    bounds.check(upload.segment)
    taken = upload.taken(is_new)
    with admission.admitted(workspace, token, taken) as counted:
        open_store(settings.OBJECTS_URL).put(upload.object_key, upload.body)
        try:
            is_duplicate = _keep(workspace, upload, token)
        except IntegrityError:
            # Meanwhile another upload made its session, or some other row.
            is_duplicate = _keep(workspace, upload, token)
        if is_duplicate:
            counted.take_back()
    return is_duplicate


def _keep(workspace: Workspace, upload: Upload, token: Token | None) -> bool:
    """Write the rows of a segment whose object is written; True if they already were."""
    with transaction.atomic():
        run = own_run(workspace, upload.segment.run_id, upload.segment.job)
        session = _session(run, upload)
        if session._state.adding:
            progress.follow(run, session, upload.segment)
            rows.Segment.objects.create(session=session, **upload.row)
        elif _add_row(session, upload):
            progress.follow(run, session, upload.segment)
        else:
            return True
        if token:
            uploaders.remember(token, run.pk)
        delivery.record_outcomes(session, upload.segment)
        queue.want(run)
        queue.enqueue_on_commit(run)
    return False


def _known(workspace: Workspace, upload: Upload) -> rows.Segment | None:
    clock = upload.segment.clock
    known = rows.Segment.objects.filter(
        session_id=clock.session_id,
        seq=upload.segment.seq,
        session__node__attempt__run__workspace=workspace,
    ).first()
    return known if known is not None and _same(known, upload) else None


def _heal(workspace: Workspace, known: rows.Segment, upload: Upload, is_written: bool) -> None:
    """Write the object again if it was lost, and judge the run again with it."""
    store = open_store(settings.OBJECTS_URL)
    if known.compacted_at is not None:
        # Some may still read an object of its own key.
        if is_written and upload.object_key != known.object_key:
            store.delete(upload.object_key)
        return
    if not is_written:
        if store.exists(known.object_key):
            return
        store.put(known.object_key, upload.body)
    with transaction.atomic():
        run = own_run(workspace, upload.segment.run_id, upload.segment.job)
        queue.want(run)
    queue.enqueue_on_commit(run)


def _same(known: rows.Segment, upload: Upload) -> bool:
    if known.sha256 == upload.sha256:
        return True
    detail = (
        f"Segment {known.seq} of session {known.session_id} was already uploaded "
        "with different content."
    )
    fix = "Use each segment number once; never change a segment that was sent."
    raise Problem(409, detail, "seq", fix, kind="segment-conflict")


def own_run(workspace: Workspace, run_id: UUID, job_name: str, is_new: bool = False) -> rows.Run:
    """Return the run, locked; made if it is new, as `is_new_run` may have found.

    Raises:
        Problem: 404 if it is another workspace's.
    """
    run = registration.run(workspace, run_id, job_name, is_new)
    if run.workspace_id != workspace.pk:
        raise _foreign()
    return run


def is_new_run(workspace: Workspace, run_id: UUID) -> bool:
    """Return whether the run is new, before anything is written: an object must never be stored
    under another workspace's run.

    Raises:
        Problem: 404 if the run is another workspace's.
    """
    owners = [owner for (owner,) in _owners(run=run_id)]
    if owners not in ([], [workspace.pk]):
        raise _foreign()
    return not owners


@Values
def _owners() -> QuerySet[rows.Run, tuple[int]]:
    return rows.Run.objects.filter(pk=Slot("run", rows.Run._meta.pk)).values_list("workspace_id")


def _foreign() -> Problem:
    detail, fix = "This run is not in your workspace.", "Create a new run id."
    return Problem(404, detail, "run_id", fix, kind="run-in-another-workspace")


def _session(run: rows.Run, upload: Upload) -> rows.Session:
    """Return the session; a new one isn't saved."""
    node = registration.node(run, upload.segment.attempt, upload.segment.machine_id)
    clock = upload.segment.clock
    session = rows.Session.objects.select_for_update().filter(pk=clock.session_id).first()
    if session is None:
        return registration.new_session(node, upload.segment, upload.clock_offset_ms)
    if session.node_id != node.pk:
        detail = "This session belongs to another run or node."
        fix = "Create a new session id for each agent process."
        raise Problem(409, detail, "session_id", fix, kind="session-conflict")
    return session


def _add_row(session: rows.Session, upload: Upload) -> bool:
    """Write the segment's row; True if it is new. If two uploads arrive at once, the unique
    constraint decides.
    """
    _refuse_doubled(session, upload.segment)
    columns = upload.row
    row, made = rows.Segment.objects.get_or_create(
        session=session, seq=columns.pop("seq"), defaults=columns
    )
    return made or not _same(row, upload)


def _refuse_doubled(session: rows.Session, segment: Segment) -> None:
    """Refuse a segment if some of its time was already stored in another form. An agent that got no
    answer for a segment may send it again in pieces.

    Raises:
        Problem: 409 if some of its time is here already, in a piece or, if it is one, in any.
    """
    if FIRST_ADDED <= segment.seq < FIRST_PIECE:
        return
    others = session.segments.exclude(seq=segment.seq)
    others = others.exclude(seq__gte=FIRST_ADDED, seq__lt=FIRST_PIECE)
    if segment.seq < FIRST_PIECE:
        others = others.filter(seq__gte=FIRST_PIECE)
    end_ms = segment.start_ms + segment.duration_ms
    begun = others.filter(start_ms__lt=end_ms).alias(end_ms=F("start_ms") + F("duration_ms"))
    if begun.filter(end_ms__gt=segment.start_ms).exists():
        detail = f"The time of segment {segment.seq} was already uploaded under another number."
        fix = "Send each moment of a session once."
        raise Problem(409, detail, "seq", fix, kind="segment-conflict")
