"""Takes what agents send: object first, then the rows in one short transaction, then the queue.

A segment goes the short way (`appending`) if its session is known and it holds no fact of its
session that is kept: nearly all do. The first one of a new run goes a way of its own (`beginning`).
The others go the careful way (`careful`), which makes what is missing, and says why something is
refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeGuard
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from trimtab.wire import Declaration

from advisor.store.opening import open_store
from webapp.accounts.models import Token, Workspace
from webapp.analysis import queue
from webapp.http import trouble
from webapp.http.problems import Problem
from webapp.ingest import appending, beginning, bounds, careful, known_sessions, uploaders
from webapp.ingest.upload import Upload
from webapp.quotas import admission
from webapp.runs import models as rows
from webapp.runs import registration

MOST_LABELS = 500
"""The most labels of each kind on one run, however many declarations brought them."""


def declaration(
    workspace: Workspace, declared: Declaration, body_bytes: int = 0, token: Token | None = None
) -> None:
    """Make or update the run and its node as declared.

    Raises:
        Problem: 404 if the run belongs to another workspace; 400 if it would have too many tags,
            parameters or parts of its workload; 429 beyond a quota.
    """
    is_new = careful.is_new_run(workspace, declared.run_id)
    taken = admission.Upload(declared.run_id, is_new, body_bytes)
    with admission.admitted(workspace, token, taken), transaction.atomic():
        run = careful.own_run(workspace, declared.run_id, declared.job, is_new)
        _bound_labels(run, declared)
        registration.declare(run, declared)
        if token:
            uploaders.remember(token, run.pk)
        queue.want(run)
    queue.enqueue_on_commit(run)


def labels(
    workspace: Workspace, run_id: UUID, parameters: Mapping[str, Any], tags: Mapping[str, str]
) -> None:
    """Add parameters and tags to a run that exists. Beyond `MOST_LABELS` new ones are left out.

    Raises:
        Problem: 404 if the run belongs to another workspace.
    """
    with transaction.atomic():
        run = careful.own_run(workspace, run_id, "")
        registration.label(run, _fitting(run.parameters, parameters), _fitting(run.tags, tags))
        run.save(update_fields=["parameters", "tags"])
        queue.want(run)
    queue.enqueue_on_commit(run)


def _fitting(known: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    room = max(0, MOST_LABELS - len(known))
    unknown = set([key for key in new if key not in known][:room])
    return {key: value for key, value in new.items() if key in known or key in unknown}


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
    begun = begin(workspace, upload, token)
    if begun is None:
        return carefully(workspace, upload, token)
    (row,) = complete([begun])
    return finish(begun, row)


def carefully(workspace: Workspace, upload: Upload, token: Token | None) -> Accepted:
    """Store a segment that can't go the short way. Raises as `segment`."""
    return Accepted(careful.store(workspace, upload, token))


def segments(
    workspace: Workspace, uploads: Sequence[Upload], token: Token | None = None
) -> list[Accepted | Exception]:
    """Make segments durable, their rows in one transaction as far as possible.

    Returns:
        For each in turn the outcome, or what `segment` would raise. After trouble of the
        service the rest isn't tried.
    """
    outcomes: dict[int, Accepted | Exception] = {}
    begun: dict[int, Begun] = {}
    for place, upload in enumerate(uploads):
        try:
            one = begin(workspace, upload, token)
            if one is None:
                outcomes[place] = carefully(workspace, upload, token)
            elif isinstance(one.part, beginning.First):
                (row,) = complete([one])
                outcomes[place] = finish(one, row)  # this makes the session of those that follow
            else:
                begun[place] = one
        except Exception as error:
            outcomes[place] = error
            if trouble.reason(error):
                outcomes |= dict.fromkeys(range(place, len(uploads)), error)
                break
    for (place, one), row in zip(begun.items(), complete([*begun.values()]), strict=True):
        try:
            outcomes[place] = finish(one, row)
        except Exception as error:
            outcomes[place] = error
    return [outcomes[place] for place in range(len(uploads))]


@dataclass(frozen=True)
class Begun:
    """A segment that is counted, and whose object and rows are missing."""

    workspace: Workspace
    token: Token | None
    upload: Upload
    counted: admission.Admission
    part: appending.Entry | beginning.First


Row = appending.Appended | Exception
"""The result of writing a segment's object and row."""


def begin(workspace: Workspace, upload: Upload, token: Token | None) -> Begun | None:
    """Count a segment that needn't go the careful way; None if it has to.

    Raises:
        Problem: 400 if it is out of bounds; 404 if the run is another workspace's.
    """
    part = _part(workspace, upload, token) if upload.is_plain else None
    if part is None or not open_store(settings.OBJECTS_URL).is_new(upload.object_key):
        return None
    bounds.check(upload.segment)
    taken = upload.taken(is_new_run=isinstance(part, beginning.First))
    counted = admission.counted(workspace, token, taken)
    return Begun(workspace, token, upload, counted, part) if counted.is_admitted else None


def _part(
    workspace: Workspace, upload: Upload, token: Token | None
) -> appending.Entry | beginning.First | None:
    """Return what the short way of the segment writes, or None if it has none, because the run is
    known and the session isn't. Raises Problem 404.
    """
    began_at = known_sessions.began_at(workspace, upload.segment)
    if began_at is not None:
        return _entry(workspace, upload, began_at)
    if careful.is_new_run(workspace, upload.segment.run_id):
        return beginning.First(workspace, upload, token)
    return None


def complete(begun: Sequence[Begun]) -> list[Row]:
    """Write their objects, and then their rows in as few transactions as possible.

    Returns after the commits; each row is for `finish`.
    """
    try:
        return _complete(begun)
    except BaseException:
        for each in begun:
            each.counted.take_back()
        raise


def _complete(begun: Sequence[Begun]) -> list[Row]:
    bodies = [(each.upload.object_key, each.upload.body) for each in begun]
    errors = open_store(settings.OBJECTS_URL).put_all(bodies)
    rows_of: dict[int, Row] = {
        id(each): error for each, error in zip(begun, errors, strict=True) if error is not None
    }
    new = [each for each in begun if id(each) not in rows_of]
    entries = {id(each): each.part for each in new if isinstance(each.part, appending.Entry)}
    rows_of |= dict(zip(entries, appending.append([*entries.values()]), strict=True))
    firsts = {id(each): each.part for each in new if isinstance(each.part, beginning.First)}
    rows_of |= dict(zip(firsts, beginning.write([*firsts.values()]), strict=True))
    return [rows_of[id(each)] for each in begun]


def finish(begun: Begun, row: Row) -> Accepted:
    """Return the outcome of a segment by its row: without one, the careful way finds out why.
    Raises as `segment`, or `row`.
    """
    if is_finished(row):
        return Accepted(False, row.may_be_asked)
    begun.counted.take_back()
    if isinstance(row, Exception):
        raise row
    return after_all(begun.workspace, begun.upload, begun.token)


def is_finished(row: Row) -> TypeGuard[appending.Appended]:
    """Return whether nothing is left to do for a segment."""
    return isinstance(row, appending.Appended) and row.is_new


def after_all(workspace: Workspace, upload: Upload, token: Token | None) -> Accepted:
    """Store a segment whose object was written and whose row was not, the careful way. One that is
    refused leaves no object. Raises as `segment`.
    """
    try:
        return Accepted(careful.store(workspace, upload, token, is_written=True))
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
        **upload.columns,
        refused=appending.refused_json([(r.name, r.reason) for r in segment.refused]),
    )


def _bound_labels(run: rows.Run, declared: Declaration) -> None:
    for field in ("tags", "parameters", "workload"):
        if len({*getattr(run, field), *getattr(declared, field)}) > MOST_LABELS:
            detail = f"Over {MOST_LABELS} {field}, those that the run already has included."
            fix = "Send fewer, and don't change their names."
            raise Problem(400, detail, field, fix, kind="too-many-labels")
