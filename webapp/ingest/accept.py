"""Takes what agents send: object first, then the rows in one short transaction, then the queue.

A segment goes the short way (`appending`) if its session is known and it holds no fact of its
session that is kept: nearly all do. The others go the careful way, which makes what is missing, and
says why something is refused.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from trimtab.wire import FIRST_PIECE, Declaration, Segment

from advisor.store.opening import open_store
from webapp.accounts.models import Token, Workspace
from webapp.analysis import queue
from webapp.directives import delivery
from webapp.http import trouble
from webapp.http.problems import Problem
from webapp.ingest import appending, bounds, known_sessions
from webapp.quotas import admission
from webapp.runs import models as rows
from webapp.runs import progress, registration

# Below this, the difference between the clocks is the time an upload takes.
SKEW_NOISE_SECONDS = 5
_TELLING = progress.TELLING | {delivery.EVENT}
MOST_LABELS = 500
"""Of each kind on one run, however many declarations brought them."""


@dataclass(frozen=True)
class Upload:
    """A decoded segment, its body as it came, and when the agent's clock says it was sent."""

    segment: Segment
    body: bytes
    sent_at_ns: int | None

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.body).hexdigest()

    @cached_property
    def object_key(self) -> str:
        clock = self.segment.clock
        name = f"{self.segment.seq:09d}-{self.sha256}.segment"
        return f"runs/{self.segment.run_id}/{clock.session_id}/{name}"

    @property
    def is_plain(self) -> bool:
        """It is a whole segment without facts that are kept with its session."""
        kinds = {event.kind for event in self.segment.events}
        return self.segment.seq < FIRST_PIECE and kinds.isdisjoint(_TELLING)

    @property
    def measured_until_ns(self) -> int:
        """The end of the segment by the machine's clock, since the Unix epoch."""
        segment = self.segment
        return segment.clock.started_at_ns + (segment.start_ms + segment.duration_ms) * 1_000_000

    @property
    def clock_offset_ms(self) -> int:
        """What to add to the machine's clock; whole seconds, 0 within the noise.

        Known from the time at which the agent says that it sent. Nothing arrives before it was
        measured, so a clock that is ahead of ours is detected even without that time.
        """
        now_ns = time.time_ns()
        told_ns = 0 if self.sent_at_ns is None else now_ns - self.sent_at_ns
        offset_seconds = round(min(told_ns, now_ns - self.measured_until_ns) / 1e9)
        return offset_seconds * 1000 if abs(offset_seconds) > SKEW_NOISE_SECONDS else 0


def declaration(
    workspace: Workspace, declared: Declaration, body_bytes: int = 0, token: Token | None = None
) -> None:
    """Make or update the run and its node as declared.

    Raises:
        Problem: 404 if the run belongs to another workspace; 400 if it would have too many tags,
            parameters or parts of its workload; 429 beyond a quota.
    """
    is_new = is_new_run(workspace, declared.run_id)
    taken = admission.Upload(declared.run_id, is_new, body_bytes)
    with admission.admitted(workspace, token, taken), transaction.atomic():
        run = own_run(workspace, declared.run_id, declared.job)
        _bound_labels(run, declared)
        registration.declare(run, declared)
        queue.want(run)
    queue.enqueue_on_commit(run)


@dataclass(frozen=True)
class Accepted:
    """A segment is durable.

    Attributes:
        is_duplicate: it already was.
        may_be_asked: False: there is no directive for its agent.
    """

    is_duplicate: bool
    may_be_asked: bool = True


def segment(workspace: Workspace, upload: Upload, token: Token | None = None) -> Accepted:
    """Make one segment durable.

    Raises:
        Problem: 400 if it is out of bounds; 404 if the run or session is another workspace's; 409
            if this seq was already taken with another body; 429 beyond a quota.
    """
    (outcome,) = segments(workspace, [upload], token)
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def segments(
    workspace: Workspace, uploads: Sequence[Upload], token: Token | None = None
) -> list[Accepted | Exception]:
    """Make segments durable, their rows in one transaction as far as possible.

    Returns:
        For each in turn the outcome, or what `segment` would raise. After trouble of the
        service the rest isn't tried.
    """
    outcomes: dict[int, Accepted | Exception] = {}
    begun: dict[int, _Begun] = {}
    for place, upload in enumerate(uploads):
        try:
            if one := _begun(workspace, upload, token):
                begun[place] = one
            else:
                outcomes[place] = Accepted(_carefully(workspace, upload, token))
        except Exception as error:
            outcomes[place] = error
            if trouble.reason(error):
                outcomes |= dict.fromkeys(range(place, len(uploads)), error)
                break
    rows_of = appending.append([one.entry for one in begun.values()])
    for (place, one), row in zip(begun.items(), rows_of, strict=True):
        outcomes[place] = _finished(workspace, one, row, token)
    return [outcomes[place] for place in range(len(uploads))]


@dataclass(frozen=True)
class _Begun:
    """A segment on the short way: it is counted, and its object is written."""

    upload: Upload
    counted: admission.Admission
    entry: appending.Entry


def _begun(workspace: Workspace, upload: Upload, token: Token | None) -> _Begun | None:
    """None: it has to go the careful way."""
    began_at = known_sessions.began_at(workspace, upload.segment) if upload.is_plain else None
    if began_at is None:
        return None
    bounds.check(upload.segment)
    store = open_store(settings.OBJECTS_URL)
    with admission.attempted(workspace, token, _taken(upload, is_new=False)) as counted:
        if counted.is_admitted and store.put_new(upload.object_key, upload.body):
            return _Begun(upload, counted, _entry(workspace, upload, began_at))
        counted.take_back()
    return None


def _finished(
    workspace: Workspace, begun: _Begun, row: appending.Appended | Exception, token: Token | None
) -> Accepted | Exception:
    """Its outcome; without a row, the careful way finds out why."""
    if isinstance(row, appending.Appended) and row.is_new:
        return Accepted(False, row.may_be_asked)
    begun.counted.take_back()
    if isinstance(row, Exception):
        return row
    try:
        return Accepted(_after_all(workspace, begun.upload, token))
    except Exception as error:
        return error


def _after_all(workspace: Workspace, upload: Upload, token: Token | None) -> bool:
    """`_carefully`; a segment that is refused leaves no object."""
    try:
        return _carefully(workspace, upload, token, is_written=True)
    except Problem:
        open_store(settings.OBJECTS_URL).delete(upload.object_key)
        raise


def _entry(workspace: Workspace, upload: Upload, began_at: datetime) -> appending.Entry:
    segment = upload.segment
    return appending.Entry(
        workspace.pk,
        segment.run_id,
        segment.attempt,
        segment.machine_id,
        segment.clock.session_id,
        segment.seq,
        ends_at=began_at + timedelta(milliseconds=segment.start_ms + segment.duration_ms),
        received_at=timezone.now(),
        **_columns(upload),
        refused=appending.refused_json([(r.name, r.reason) for r in segment.refused]),
    )


def _columns(upload: Upload) -> dict[str, Any]:
    """Of the segment's row."""
    segment = upload.segment
    return {
        "object_key": upload.object_key,
        "sha256": upload.sha256,
        "body_bytes": len(upload.body),
        "sample_count": segment.sample_count,
        "start_ms": segment.start_ms,
        "duration_ms": segment.duration_ms,
        "resolution_ms": segment.resolution_ms,
    }


def _carefully(
    workspace: Workspace, upload: Upload, token: Token | None, is_written: bool = False
) -> bool:
    """Ask for everything, make what is missing; True if the segment already was durable.

    Args:
        is_written: its object has just been written, and wasn't there before.
    """
    if known := _known(workspace, upload):
        _heal(workspace, known, upload, is_written)
        return True
    bounds.check(upload.segment)
    taken = _taken(upload, is_new_run(workspace, upload.segment.run_id))
    with admission.admitted(workspace, token, taken) as counted:
        open_store(settings.OBJECTS_URL).put(upload.object_key, upload.body)
        is_duplicate = _keep(workspace, upload)
        if is_duplicate:
            counted.take_back()
    return is_duplicate


def _taken(upload: Upload, is_new: bool) -> admission.Upload:
    """What it takes of the quotas."""
    segment, size_bytes = upload.segment, len(upload.body)
    series = tuple(name for block in segment.blocks for name in block.columns)
    return admission.Upload(
        segment.run_id, is_new, size_bytes, size_bytes, segment.machine_id, series
    )


def _keep(workspace: Workspace, upload: Upload) -> bool:
    """Write the rows of a segment whose object is written; True if they already were."""
    with transaction.atomic():
        run = own_run(workspace, upload.segment.run_id, upload.segment.job)
        session = _session(run, upload)
        if not _add_row(session, upload):
            return True
        progress.follow(run, session, upload.segment)
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


def own_run(workspace: Workspace, run_id: UUID, job_name: str) -> rows.Run:
    """The run, locked; made if it is new. Raises Problem 404 if it is another workspace's."""
    run = registration.run(workspace, run_id, job_name)
    if run.workspace_id != workspace.pk:
        raise _foreign()
    return run


def is_new_run(workspace: Workspace, run_id: UUID) -> bool:
    """Before anything is written: nothing may come to lie beside another workspace's.

    Raises:
        Problem: 404 if the run is another workspace's.
    """
    owner = rows.Run.objects.filter(pk=run_id).values_list("workspace_id", flat=True).first()
    if owner not in (None, workspace.pk):
        raise _foreign()
    return owner is None


def _foreign() -> Problem:
    detail, fix = "This run is not in your workspace.", "Create a new run id."
    return Problem(404, detail, "run_id", fix, kind="run-in-another-workspace")


def _bound_labels(run: rows.Run, declared: Declaration) -> None:
    for field in ("tags", "parameters", "workload"):
        if len({*getattr(run, field), *getattr(declared, field)}) > MOST_LABELS:
            detail = f"Over {MOST_LABELS} {field}, those that the run already has included."
            fix = "Send fewer, and don't change their names."
            raise Problem(400, detail, field, fix, kind="too-many-labels")


def _session(run: rows.Run, upload: Upload) -> rows.Session:
    node = registration.node(run, upload.segment.attempt, upload.segment.machine_id)
    clock = upload.segment.clock
    session, _ = rows.Session.objects.select_for_update().get_or_create(
        id=clock.session_id,
        defaults={
            "node": node,
            "boot_id": clock.boot_id,
            "started_at": registration.moment(clock.started_at_ns),
            "clock_offset_ms": upload.clock_offset_ms,
        },
    )
    if session.node_id != node.pk:
        detail = "This session belongs to another run or node."
        fix = "Create a new session id for each agent process."
        raise Problem(409, detail, "session_id", fix, kind="session-conflict")
    return session


def _add_row(session: rows.Session, upload: Upload) -> bool:
    """True if the row is new. Two uploads at once: the unique constraint decides."""
    segment = upload.segment
    _refuse_doubled(session, segment)
    row, made = rows.Segment.objects.get_or_create(
        session=session,
        seq=segment.seq,
        defaults=_columns(upload) | {"refused": [[r.name, r.reason] for r in segment.refused]},
    )
    return made or not _same(row, upload)


def _refuse_doubled(session: rows.Session, segment: Segment) -> None:
    """An agent that got no answer for a segment may send it again in pieces.

    Raises:
        Problem: 409 if some of its time is here already, in a piece or, if it is one, in any.
    """
    others = session.segments.exclude(seq=segment.seq)
    if segment.seq < FIRST_PIECE:
        others = others.filter(seq__gte=FIRST_PIECE)
    end_ms = segment.start_ms + segment.duration_ms
    begun = others.filter(start_ms__lt=end_ms).alias(end_ms=F("start_ms") + F("duration_ms"))
    if begun.filter(end_ms__gt=segment.start_ms).exists():
        detail = f"The time of segment {segment.seq} was already uploaded under another number."
        fix = "Send each moment of a session once."
        raise Problem(409, detail, "seq", fix, kind="segment-conflict")
