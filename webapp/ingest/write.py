"""Makes uploaded segments durable: counted, then their objects, then their rows, then answered.

Every way in comes here: a single segment, several in one request, and what MLflow's clients log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db import IntegrityError, transaction

from advisor.store.opening import open_store
from webapp.analysis import queue
from webapp.http import trouble
from webapp.http.problems import Problem
from webapp.ingest import bounds, explain, known_sessions, own_runs, segment_rows
from webapp.ingest.upload import Upload
from webapp.quotas import admission
from webapp.runs import locks
from webapp.runs.models import Segment


@dataclass(frozen=True)
class SegmentReceipt:
    """A segment is durable.

    Attributes:
        is_duplicate: it already was.
        may_be_asked: False: there is no directive for its agent.
    """

    is_duplicate: bool
    may_be_asked: bool = True


Outcome = SegmentReceipt | Exception
"""The result for one segment; an exception is a Problem or trouble of the service."""


@dataclass(eq=False)
class _Writing:
    """A segment on its way."""

    upload: Upload
    is_foreign: bool = False
    """True if its run or session is somebody else's, or the session another run's."""
    is_new_run: bool = False
    has_new_object: bool = False
    """True if there was no object of its content."""
    counted: admission.Admission | None = None
    conflict: IntegrityError | None = None
    """Another upload that made its run or session at the same moment."""
    outcome: Outcome | None = None

    def fail(self, error: Exception) -> None:
        """Count the segment no longer, and let this be its outcome."""
        self.outcome = error
        self.take_back()

    def take_back(self) -> None:
        if self.counted is not None:
            self.counted.take_back()


def write_segment(upload: Upload) -> SegmentReceipt:
    """Make one segment durable.

    Raises:
        Problem: 400 if it is out of bounds; 404 if the run is another workspace's; 409 if this seq
            was already taken with another body, or the session is another run's; 429 beyond a
            quota.
    """
    (outcome,) = write_segments([upload])
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def write_segments(uploads: Sequence[Upload]) -> list[Outcome]:
    """Make segments durable, their rows in one transaction as far as possible.

    Returns:
        For each in turn the outcome. After trouble of the service the rest isn't tried.
    """
    writings = [_Writing(upload) for upload in uploads]
    for step in (_place, _admit, _put_objects, _write_rows, _write_rows_again):
        open_ones = [each for each in writings if each.outcome is None]
        try:
            step(open_ones)
        except Exception as error:
            for each in open_ones:
                if each.outcome is None:
                    each.fail(error)
    return [each.outcome for each in writings if each.outcome is not None]


def _place(writings: Sequence[_Writing]) -> None:
    """Find out which runs are new, and which segments are of somebody else's run or session."""
    known = known_sessions.find_sessions(each.upload.session_id for each in writings)
    unknown = {w.upload.run_id for w in writings if w.upload.session_id not in known}
    owners = own_runs.find_owners(unknown)
    for writing in writings:
        upload = writing.upload
        own, session = upload.workspace.pk, known.get(upload.session_id)
        if session is not None:
            place = session.workspace_id, session.run_id
            writing.is_foreign = place != (own, upload.run_id)
        else:
            writing.is_new_run = upload.run_id not in owners
            writing.is_foreign = owners.get(upload.run_id, own) != own


def _admit(writings: Sequence[_Writing]) -> None:
    """Count the segments. Those that are stored already are neither counted nor refused."""
    _each_alone(writings, _admit_one)


def _admit_one(writing: _Writing) -> None:
    upload = writing.upload
    writing.has_new_object = open_store(settings.OBJECTS_URL).is_new(upload.object_key)
    if (writing.is_foreign or not writing.has_new_object) and _settle(writing):
        return
    bounds.check_bounds(upload.segment)
    takes = upload.takes(writing.is_new_run)
    counted = admission.try_to_count(upload.workspace, upload.token, takes)
    if not counted.is_admitted:
        if _settle(writing):
            return
        counted = admission.count_or_refuse(upload.workspace, upload.token, takes)
    writing.counted = counted


def _put_objects(writings: Sequence[_Writing]) -> None:
    bodies = [(each.upload.object_key, each.upload.body) for each in writings]
    errors = open_store(settings.OBJECTS_URL).put_all(bodies)
    for writing, error in zip(writings, errors, strict=True):
        if error is not None:
            writing.fail(error)


def _write_rows(writings: Sequence[_Writing]) -> None:
    answers = segment_rows.write_rows([each.upload for each in writings])
    for writing, answer in zip(writings, answers, strict=True):
        if isinstance(answer, IntegrityError):
            writing.conflict = answer
        elif isinstance(answer, Exception):
            writing.fail(answer)
        elif answer.is_new:
            writing.outcome = SegmentReceipt(False, answer.may_be_asked)
    _each_alone([each for each in writings if each.outcome is None], _settle)


def _write_rows_again(writings: Sequence[_Writing]) -> None:
    """Write the rows of segments that nothing stands against: something that they refer to was made
    or deleted meanwhile.
    """
    for writing in writings:
        known_sessions.forget_session(writing.upload.session_id)
    _write_rows(writings)
    for writing in writings:
        if writing.outcome is None:
            gone = IntegrityError("what a segment refers to was deleted while it was written")
            writing.fail(writing.conflict or gone)


def _settle(writing: _Writing) -> bool:
    """Give a segment without a row of its own its outcome, if it is stored already or refused. A
    refused one leaves no object.
    """
    upload = writing.upload
    is_written = writing.has_new_object and writing.counted is not None
    found = explain.explain_missing_row(upload)
    if found is None:
        return False
    writing.take_back()
    if isinstance(found, Problem):
        if is_written:
            open_store(settings.OBJECTS_URL).delete(upload.object_key)
        writing.outcome = found
    else:
        _restore_object(upload, found, is_written)
        writing.outcome = SegmentReceipt(True)
    return True


def _restore_object(upload: Upload, row: Segment, is_written: bool) -> None:
    """Write the object of a stored segment again if it was lost, and judge the run again with
    it.
    """
    store = open_store(settings.OBJECTS_URL)
    if row.compacted_at is not None:
        # Some may still read an object of its own key.
        if is_written and upload.object_key != row.object_key:
            store.delete(upload.object_key)
        return
    if not is_written:
        if store.exists(row.object_key):
            return
        store.put(row.object_key, upload.body)
    with transaction.atomic():
        run = locks.run(upload.run_id)
        queue.queue_run(run)
        queue.enqueue_on_commit(run)


def _each_alone(writings: Iterable[_Writing], work: Callable[[_Writing], object]) -> None:
    """Do the work for each. An exception fails this one only; after trouble of the service the rest
    isn't tried.
    """
    troubled: Exception | None = None
    for writing in writings:
        try:
            if troubled is not None:
                raise troubled
            work(writing)
        except Exception as error:
            writing.fail(error)
            if trouble.reason(error):
                troubled = error
