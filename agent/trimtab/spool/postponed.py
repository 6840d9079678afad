"""Uploads that wait for longer than a pause, because the service has a problem with them alone."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

from trimtab.spool.database import SpoolDatabase

DECLARATION = "declaration"
"""The item of a session's declaration; of a segment it is its number, of an artefact its hash."""
_FIRST_SECONDS, _LONGEST_SECONDS = 60.0, 3600.0


class PostponedUploads:
    """Postponed uploads by session and item. Refused uploads are postponed until somebody sends
    them again.
    """

    def __init__(self, database: SpoolDatabase) -> None:
        self._database = database

    def postpone(self, session: str, item: str, reason: str) -> None:
        """Postpone an upload for a minute at first, twice as long each further time, at most an
        hour.
        """
        times, now = self._times(session, item), int(time.time())
        until = now + min(_FIRST_SECONDS * 2**times, _LONGEST_SECONDS)
        self._database.write(_PUT, session, item, times + 1, now, until, reason[:500])

    def refuse(self, session: str, item: str, reason: str) -> None:
        self._database.write(_PUT, session, item, 0, time.time(), None, reason[:500])

    def note(self, session: str, item: str, reason: str) -> None:
        """Remember why it failed. It isn't held back."""
        now = int(time.time())
        self._database.write(_NOTE, session, item, now, now, reason[:500])

    def forget(self, session: str, item: str) -> None:
        delete = "DELETE FROM postponed WHERE session = ? AND item = ?"
        self._database.write(delete, session, item)

    def retry(self, sessions: Iterable[str], refused: bool = False) -> None:
        """Make these sessions' uploads ready now: postponed ones, or refused ones too."""
        delete = (
            "DELETE FROM postponed WHERE session IN (SELECT value FROM json_each(?))"
            " AND (? OR until IS NOT NULL)"
        )
        self._database.write(delete, json.dumps(list(sessions)), refused)

    def refused_before(self, moment: float) -> list[tuple[str, str]]:
        """Return session and item of refused uploads; `moment` is in Unix seconds."""
        select = "SELECT session, item FROM postponed WHERE until IS NULL AND since < ?"
        return self._database.read(select, moment)

    def last_reason(self, sessions: str | None) -> str:
        """Return why an upload waits; empty if none does. `sessions` is a JSON list, or None for
        all.
        """
        rows = self._database.read(_LAST_REASON, sessions)
        return rows[0][0] if rows else ""

    def _times(self, session: str, item: str) -> int:
        select = "SELECT times FROM postponed WHERE session = ? AND item = ?"
        rows = self._database.read(select, session, item)
        return int(rows[0][0]) if rows else 0


_PUT = "REPLACE INTO postponed VALUES (?, ?, ?, ?, ?, ?)"
_NOTE = """
INSERT INTO postponed VALUES (?, ?, 0, ?, ?, ?)
    ON CONFLICT (session, item) DO UPDATE SET reason = excluded.reason
"""
_LAST_REASON = """
SELECT reason FROM postponed
    WHERE until IS NOT NULL AND (?1 IS NULL OR session IN (SELECT value FROM json_each(?1)))
    ORDER BY until DESC LIMIT 1
"""
