"""Dead letters: segments that the service refused for good, kept until somebody sends them again.

After 30 days, or if there is no room for them, they expire. Their number is kept and sent to the
service with the declaration of their session.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from trimtab.spool.database import SpoolDatabase
from trimtab.spool.ownership import NOBODY
from trimtab.wire import WireError, decode_segment

DEAD_BYTES = 16 * 1024 * 1024
DEAD_SECONDS = 30 * 86_400.0
UNKNOWN_DESTINATION = "unknown"
"""The destination of dead letters whose session an earlier agent deleted: only `trimtab sync --all`
sends them."""


@dataclass(frozen=True)
class Dead:
    """Uploads that were set apart, and those that were deleted unsent."""

    segments: int
    segment_bytes: int
    since: float | None
    """The time in Unix seconds at which the oldest segment was set apart."""
    reasons: list[tuple[str, int]]
    """The reasons with how often each occurred; the most frequent first, at most three."""
    others: list[tuple[str, str]]
    """Refused declarations and artefacts (their hash), each with its reason."""
    expired: int
    """Uploads that were deleted unsent in the last 30 days or more."""


class DeadLetters:
    """The segments are in a table of their own; `created` is when a segment was set apart."""

    def __init__(self, database: SpoolDatabase) -> None:
        self._database = database

    def bury(self, session: str, seq: int, reason: str) -> None:
        with self._database.transaction():
            self._database.write(_COPY, time.time(), reason[:500], session, seq)
            self._database.write("DELETE FROM segments WHERE session = ? AND seq = ?", session, seq)
        self._delete(_BEYOND, DEAD_BYTES)

    def contents(self, sessions: Iterable[str] | None = None) -> Dead:
        """Return the contents for these sessions, by default for all."""
        chosen = None if sessions is None else json.dumps(list(sessions))
        segments, segment_bytes, since = self._database.read(_COUNTS, chosen)[0]
        reasons = self._database.read(_REASONS, chosen)
        others = self._database.read(_OTHERS, chosen)
        expired = self._database.read(_EXPIRED, chosen)[0][0]
        return Dead(segments, segment_bytes, since, reasons, others, expired)

    def adopt_orphans(self) -> None:
        """Give a session to dead letters whose session was deleted."""
        for session, body in self._database.read(_ORPHANS):
            with suppress(WireError):
                run = str(decode_segment(body).run_id)
                values = session, run, UNKNOWN_DESTINATION, time.time(), NOBODY
                self._database.write(_ADOPT, *values)

    def revive(self, sessions: Iterable[str]) -> None:
        """Let dead letters wait for upload again."""
        chosen = json.dumps(list(sessions))
        with self._database.transaction():
            self._database.write(_COPY_BACK, chosen)
            self._database.write(_DELETE_REVIVED, chosen)

    def expire(self, before: float) -> None:
        """Delete those that were set apart before this moment (Unix seconds), and older counts."""
        self._delete(_OLDER, before)
        self._database.write("DELETE FROM expired WHERE last < ?", before)

    def make_room(self) -> bool:
        """Delete the oldest dead letter. Returns False if there are none."""
        return self._delete(_OLDEST, 20)

    def count_expired(self, session: str) -> None:
        """Count another refused upload of the session that was deleted."""
        self._database.write(_COUNT_ANOTHER, session, time.time())

    def _delete(self, choice: str, bound: float) -> bool:
        """Delete what the query chooses, and count it. False if it chooses nothing."""
        with self._database.lock:
            rows = [row[0] for row in self._database.read(choice, bound)]
            if rows:
                self._count_and_delete(json.dumps(rows))
        return bool(rows)

    def _count_and_delete(self, rows: str) -> None:
        with self._database.transaction():
            self._database.write(_COUNT_EXPIRED, time.time(), rows)
            self._database.write(_TELL, rows)
            self._database.write(_DELETE, rows)


_COPY = """
INSERT OR REPLACE INTO dead SELECT session, seq, body, ?, ? FROM segments
    WHERE session = ? AND seq = ?
"""
_COUNTS = """
SELECT COUNT(*), COALESCE(SUM(LENGTH(body)), 0), MIN(created) FROM dead
    WHERE ?1 IS NULL OR session IN (SELECT value FROM json_each(?1))
"""
_REASONS = """
SELECT reason, COUNT(*) FROM dead
    WHERE ?1 IS NULL OR session IN (SELECT value FROM json_each(?1))
    GROUP BY reason ORDER BY COUNT(*) DESC LIMIT 3
"""
_OTHERS = """
SELECT item, reason FROM postponed
    WHERE until IS NULL AND (?1 IS NULL OR session IN (SELECT value FROM json_each(?1)))
"""
_EXPIRED = """
SELECT COALESCE(SUM(uploads), 0) FROM expired
    WHERE ?1 IS NULL OR session IN (SELECT value FROM json_each(?1))
"""
_ORPHANS = """
SELECT session, body FROM dead WHERE session NOT IN (SELECT session FROM sessions)
    GROUP BY session
"""
_ADOPT = "INSERT OR IGNORE INTO sessions VALUES (?, ?, ?, ?, ?, NULL, 1)"
_COPY_BACK = """
INSERT OR IGNORE INTO segments (session, seq, body, created)
    SELECT session, seq, body, created FROM dead
    WHERE session IN (SELECT value FROM json_each(?))
"""
_DELETE_REVIVED = "DELETE FROM dead WHERE session IN (SELECT value FROM json_each(?))"
_BEYOND = """
SELECT rowid FROM (SELECT rowid,
    SUM(LENGTH(body)) OVER (ORDER BY created DESC, rowid DESC) AS total FROM dead) WHERE total > ?
"""
_OLDER = "SELECT rowid FROM dead WHERE created < ?"
_OLDEST = "SELECT rowid FROM dead ORDER BY created LIMIT ?"
_DELETE = "DELETE FROM dead WHERE rowid IN (SELECT value FROM json_each(?))"
_COUNT_EXPIRED = """
INSERT INTO expired SELECT session, COUNT(*), ? FROM dead
    WHERE rowid IN (SELECT value FROM json_each(?)) GROUP BY session
    ON CONFLICT (session) DO UPDATE
    SET uploads = uploads + excluded.uploads, last = excluded.last
"""
_COUNT_ANOTHER = """
INSERT INTO expired VALUES (?, 1, ?) ON CONFLICT (session) DO UPDATE
    SET uploads = uploads + 1, last = excluded.last
"""
_TELL = """
UPDATE sessions SET declared = 0 WHERE declaration IS NOT NULL
    AND session IN (SELECT session FROM dead WHERE rowid IN (SELECT value FROM json_each(?)))
    AND session NOT IN (SELECT session FROM held WHERE item = 'declaration' AND refused)
"""
"""The number of expired uploads goes with the declaration, unless that was refused itself."""
