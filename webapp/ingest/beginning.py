"""Writes the rows of new runs with their first segments: those of many runs together.

The runs of a fleet begin at the same time, and each takes rows in seven tables; here one statement
a table writes those of all. What isn't as it nearly always is (a merged or deleted job, a second
node of the same run, rows that came meanwhile) gets no row, and goes the careful way.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils import timezone

from webapp.accounts.models import Token, Workspace
from webapp.analysis import queue
from webapp.ingest import known_sessions, uploaders
from webapp.ingest.appending import Appended
from webapp.ingest.upload import Upload
from webapp.runs import models as rows
from webapp.runs import progress, registration

MOST_TOGETHER = 50
"""The most runs of one transaction; other writers wait for it."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class First:
    """First segment of an unknown run. Its object is written, and it holds no fact of its session
    that is kept (`Upload.is_plain`).
    """

    workspace: Workspace
    upload: Upload
    token: Token | None

    @property
    def run_id(self) -> UUID:
        return self.upload.segment.run_id


@dataclass(frozen=True)
class _Begun:
    """Unsaved rows of a new run."""

    first: First
    run: rows.Run
    attempt: rows.Attempt
    node: rows.Node
    session: rows.Session
    segment: rows.Segment


def write(firsts: Sequence[First]) -> list[Appended]:
    """Returns after the commit. Raises nothing: the careful way finds out why there is no row."""
    written: set[int] = set()
    for start in range(0, len(firsts), MOST_TOGETHER):
        try:
            begun = _write(_one_a_run(firsts[start : start + MOST_TOGETHER]))
        except IntegrityError:
            continue  # Meanwhile another upload made some of these rows.
        except Exception:
            logger.warning("runs can't be begun together", exc_info=True)
            continue
        written |= {id(each.first) for each in begun}
    return [Appended(is_new=id(first) in written, may_be_asked=False) for first in firsts]


def _one_a_run(firsts: Iterable[First]) -> list[First]:
    ones: dict[UUID, First] = {}
    for first in firsts:
        ones.setdefault(first.run_id, first)
    return list(ones.values())


def _write(firsts: Sequence[First]) -> list[_Begun]:
    with transaction.atomic():
        named = [(each.run_id, each.workspace, each.upload.segment.job) for each in firsts]
        runs = {run.pk: run for run in registration.new_runs(named)}
        begun = [_begun(each, runs[each.run_id]) for each in firsts if each.run_id in runs]
        rows.Run.objects.bulk_create(each.run for each in begun)
        rows.Attempt.objects.bulk_create(each.attempt for each in begun)
        rows.Node.objects.bulk_create(each.node for each in begun)
        rows.Session.objects.bulk_create(each.session for each in begun)
        rows.Segment.objects.bulk_create(each.segment for each in begun)
        uploaders.remember_all(
            [(each.first.token, each.run.pk) for each in begun if each.first.token is not None]
        )
        queue.want_first([each.run for each in begun])
    for each in begun:
        known_sessions.remember(each.first.workspace, each.session)
    return begun


def _begun(first: First, run: rows.Run) -> _Begun:
    upload, segment = first.upload, first.upload.segment
    attempt = rows.Attempt(run=run, number=segment.attempt)
    node = rows.Node(attempt=attempt, machine_id=segment.machine_id, number=1)
    session = registration.new_session(node, segment, upload.clock_offset_ms)
    session.last_ms = max(0, segment.start_ms + segment.duration_ms)
    run.last_received_at = timezone.now()
    progress.derive(run, [session])
    row = rows.Segment(session=session, **upload.row)
    return _Begun(first, run, attempt, node, session, row)
