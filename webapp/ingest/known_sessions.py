"""Remembers which sessions exist, as far as this process knows, and when they began.

Only a hint, so that an upload of a known session can take the short way: whether the session is
still there, and whose it is, is asked of the rows with each upload.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet
from trimtab.wire import Segment

from webapp.accounts.models import Workspace
from webapp.database.prepared import Models, Slot
from webapp.runs.models import Run, Session

MOST_REMEMBERED = 50_000

_began_at: dict[tuple[int, UUID], datetime] = {}
"""The corrected start of each session, by workspace and session."""


def began_at(workspace: Workspace, segment: Segment) -> datetime | None:
    """Return the corrected begin of the segment's session; None if the workspace has no such
    session.
    """
    own = workspace.pk, segment.clock.session_id
    known = _began_at.get(own)
    if known is None and (found := _found(workspace, segment)) is not None:
        known = remember(workspace, found)
    return known


def remember(workspace: Workspace, session: Session) -> datetime:
    """Remember that the session exists, and return its corrected start."""
    if len(_began_at) >= MOST_REMEMBERED:
        _began_at.clear()
    began: datetime = session.corrected_started_at
    _began_at[workspace.pk, session.pk] = began
    return began


def _found(workspace: Workspace, segment: Segment) -> Session | None:
    session_id, run_id = segment.clock.session_id, segment.run_id
    rows = _of_run(session=session_id, run=run_id, workspace=workspace.pk)
    return rows[0] if rows else None


@Models
def _of_run() -> QuerySet[Session]:
    named = Session.objects.filter(
        pk=Slot("session", Session._meta.pk),
        node__attempt__run=Slot("run", Run._meta.pk),
        node__attempt__run__workspace=Slot("workspace", Workspace._meta.pk),
    )
    return named.only("started_at", "clock_offset_ms")
