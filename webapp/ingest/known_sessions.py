"""Remembers the sessions that this process has seen, so that an upload needs no look-up.

Only a hint: whether the session is still there, and whose it is, is asked of the rows when the row
of an upload is inserted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from webapp.runs.models import Session

MOST_REMEMBERED = 50_000

_remembered: dict[UUID, KnownSession] = {}


@dataclass(frozen=True)
class KnownSession:
    """A session that exists, with its run and workspace."""

    workspace_id: int
    run_id: UUID
    started_at: datetime
    """The start of the session by the machine's corrected clock."""


def find_sessions(session_ids: Iterable[UUID]) -> dict[UUID, KnownSession]:
    """Return those of the sessions that exist."""
    wanted = set(session_ids)
    known = {each: _remembered[each] for each in wanted if each in _remembered}
    if len(known) < len(wanted):
        rows = Session.objects.filter(pk__in=wanted - set(known))
        found = {each.pk: _described(each) for each in rows.select_related("node__attempt__run")}
        remember_sessions(found)
        known |= found
    return known


def remember_sessions(known: dict[UUID, KnownSession]) -> None:
    """Remember sessions that are committed."""
    if len(_remembered) >= MOST_REMEMBERED:
        _remembered.clear()
    _remembered.update(known)


def forget_session(session_id: UUID) -> None:
    """Forget a session that may be gone."""
    _remembered.pop(session_id, None)


def _described(session: Session) -> KnownSession:
    run = session.node.attempt.run
    return KnownSession(run.workspace_id, run.pk, session.corrected_started_at)
