"""Samples that wait for upload: one SQLite file per user, shared by all agents of a host.

A segment is deleted 15 minutes after the service accepted it, so that a server that lost power can
ask again. Killing a process loses nothing; a power cut loses at most what wasn't written back yet.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from trimtab.spool.artefacts import Artefacts
from trimtab.spool.database import SpoolDatabase
from trimtab.spool.dead import DEAD_SECONDS, DeadLetters
from trimtab.spool.eviction import make_room
from trimtab.spool.ownership import NOBODY, is_alive, is_drainer, own_name
from trimtab.spool.postponed import DECLARATION, PostponedUploads
from trimtab.spool.splitting import halves
from trimtab.wire import WireError, decode_segment, encode_segment

CAP_BYTES = 256 * 1024 * 1024
MEMORY_CAP_BYTES = 16 * 1024 * 1024
KEPT_SECONDS = 15 * 60.0
MOST_RANGES = 100


@dataclass(frozen=True)
class WaitingSegment:
    """One segment that the service hasn't accepted yet."""

    run: str
    session: str
    seq: int
    body: bytes


@dataclass(frozen=True)
class DeclarationUpload:
    """The declaration of a run and its node, ready for upload."""

    run: str
    session: str
    body: bytes
    expired_uploads: int
    """Refused uploads of the session that were deleted unsent."""


@dataclass(frozen=True)
class Contents:
    """The number of items in the spool."""

    waiting: int
    waiting_bytes: int
    taken: int
    dead: int
    undeclared: int
    artefacts: int
    last_error: str

    @property
    def unsent(self) -> int:
        """The number of items that the service hasn't accepted."""
        return self.waiting + self.undeclared + self.artefacts


class Spool:
    """The open spool. All methods may be called from any thread.

    A write that fails (disk full, file destroyed) moves the spool into memory, so that sampling
    and upload go on; `problem` then says what happened.
    """

    def __init__(self, path: Path | None, cap_bytes: int = CAP_BYTES, problem: str = "") -> None:
        self._database = SpoolDatabase(path)
        self._cap_bytes = cap_bytes
        self._problem = problem
        self.artefacts = Artefacts(self._database)
        self.dead = DeadLetters(self._database)
        self.postponed = PostponedUploads(self._database)

    @property
    def path(self) -> Path | None:
        """The file; None in memory."""
        return self._database.path

    @property
    def problem(self) -> str:
        return self._database.problem or self._problem

    # The agent's own uploads

    def add_session(self, session: str, run: str, destination: str) -> None:
        self._database.write(
            "INSERT OR IGNORE INTO sessions VALUES (?, ?, ?, ?, ?, NULL, 1)",
            session,
            run,
            destination,
            time.time(),
            own_name(),
            repeat=True,
        )

    def declare(self, session: str, body: bytes) -> None:
        """Store the declaration of the run and its node, or replace it when more is known."""
        sql = "UPDATE sessions SET declaration = ?, declared = 0 WHERE session = ?"
        self._database.write(sql, body, session, repeat=True)
        self.postponed.forget(session, DECLARATION)

    def add(self, session: str, seq: int, body: bytes) -> None:
        """Store a sealed segment until the service has accepted it."""
        cap_bytes = self._cap_bytes if self.path else min(self._cap_bytes, MEMORY_CAP_BYTES)
        make_room(self._database, len(body), cap_bytes)
        sql = "INSERT OR IGNORE INTO segments (session, seq, body, created) VALUES (?, ?, ?, ?)"
        self._database.write(sql, session, seq, body, time.time(), repeat=True)

    # Uploads to send

    def waiting_declarations(self, sessions: Iterable[str]) -> list[DeclarationUpload]:
        return [
            DeclarationUpload(*row) for row in self._database.read(_UNDECLARED, _json(sessions))
        ]

    def waiting(self, sessions: Iterable[str]) -> WaitingSegment | None:
        """Return the newest segment of these sessions that the service hasn't accepted."""
        rows = self._database.read(_NEWEST, _json(sessions))
        return WaitingSegment(*rows[0]) if rows else None

    def more_of_session(self, newest: WaitingSegment, at_most: int) -> list[WaitingSegment]:
        """Return further waiting segments of the same session, the newest first."""
        rows = self._database.read(_OTHERS, newest.session, newest.seq, at_most)
        return [WaitingSegment(newest.run, newest.session, *row) for row in rows]

    def accepted_numbers(self, session: str) -> list[tuple[int, int]]:
        """Return the numbers that the service accepted and that are still here: first and last of
        each range, the highest first.
        """
        return self._database.read(_ANSWERED, session, MOST_RANGES)

    def mark_declared(self, session: str, body: bytes) -> None:
        """Note that the service accepted this declaration."""
        sql = "UPDATE sessions SET declared = 1 WHERE session = ? AND declaration = ?"
        self._database.write(sql, session, body)
        self.postponed.forget(session, DECLARATION)

    def acknowledge(self, session: str, seq: int) -> None:
        sql = "UPDATE segments SET acknowledged = ?, error = '' WHERE session = ? AND seq = ?"
        self._database.write(sql, time.time(), session, seq)
        self.postponed.forget(session, str(seq))

    def asked_again(self, session: str, seq: int) -> None:
        """Send a segment again that the service had accepted and lost, if it is still stored.

        The declaration, too: the service may have lost that as well.
        """
        sql = "UPDATE segments SET acknowledged = NULL WHERE session = ? AND seq = ?"
        if self._database.write(sql, session, seq):
            self._database.write(_DECLARE_AGAIN, session)

    def count_failure(self, session: str, seq: int, error: str) -> None:
        sql = "UPDATE segments SET attempts = attempts + 1, error = ? WHERE session = ? AND seq = ?"
        self._database.write(sql, error[:500], session, seq)

    def split(self, session: str, seq: int) -> bool:
        """Replace a segment that is too large by its halves. False if it can't be halved."""
        for body, created in self._database.read(_BODY, session, seq):
            with suppress(WireError):
                if parts := halves(decode_segment(body)):
                    first, second = ((part.seq, encode_segment(part)) for part in parts)
                    self._database.write(_SPLIT, session, *first, *second, created, body)
                    return True
        return False

    # Owners of sessions

    def claim(
        self, destinations: Iterable[str] | None, drainer: bool = False, from_drainers: bool = False
    ) -> list[str]:
        """Take over the sessions for these destinations (None: all) that no running agent owns.

        Args:
            drainer: this process is a drainer.
            from_drainers: also take sessions of a running drainer.
        """
        me = own_name(drainer)
        rows = self._database.read(_OWNERS)
        wanted = [s for s, place, _ in rows if destinations is None or place in destinations]
        return [session for session in wanted if self._take(session, me, from_drainers)]

    def _take(self, session: str, me: str, from_drainers: bool) -> bool:
        """Take a session. Retry if another process took it in between: that may be a drainer."""
        while owners := self._database.read(
            "SELECT owner FROM sessions WHERE session = ?", session
        ):
            owner = owners[0][0]
            if owner == me:
                return True
            if is_alive(owner) and not (from_drainers and is_drainer(owner)):
                return False
            update = "UPDATE sessions SET owner = ? WHERE session = ? AND owner = ?"
            if self._database.write(update, me, session, owner) == 1:
                return True
        return False

    def release(self, session: str) -> None:
        """Let another process take over the session while this one still runs."""
        sql = "UPDATE sessions SET owner = ? WHERE session = ? AND owner IN (?, ?)"
        self._database.write(sql, NOBODY, session, own_name(), own_name(drainer=True))

    # Care

    def tidy(self) -> None:
        """Delete segments accepted 15 minutes ago and finished sessions; checkpoint the WAL."""
        before = time.time() - KEPT_SECONDS
        self._database.write("DELETE FROM segments WHERE acknowledged < ?", before)
        self._expire(time.time() - DEAD_SECONDS)
        for session, owner in self._database.read(_DONE_SESSIONS, before):
            if not is_alive(owner):
                self._database.write("DELETE FROM sessions WHERE session = ?", session)
        self._database.write(_DELETE_OLD_PAUSES)
        self._database.checkpoint()

    def _expire(self, before: float) -> None:
        """Delete uploads that were refused before this moment (Unix seconds)."""
        self.dead.expire(before)
        for session, item in self.postponed.refused_before(before):
            self.dead.count_expired(session)
            if item == DECLARATION:
                self._database.write("UPDATE sessions SET declared = 1 WHERE session = ?", session)
            else:
                self.artefacts.delete_settled(session, item)
            self.postponed.forget(session, item)

    def contents(self, sessions: Iterable[str] | None = None) -> Contents:
        """Return the contents for these sessions, by default for all."""
        sessions = None if sessions is None else list(sessions)
        chosen = None if sessions is None else _json(sessions)
        waiting, waiting_bytes, taken = self._database.read(_COUNTS, chosen)[0]
        dead = self.dead.contents(sessions).segments
        undeclared = self._database.read(_COUNT_UNDECLARED, chosen)[0][0]
        errors = self._database.read(_LAST_ERROR, chosen)
        last_error = errors[0][0] if errors else self.postponed.last_reason(chosen)
        files = self.artefacts.count(sessions)
        return Contents(waiting, waiting_bytes, taken, dead, undeclared, files, last_error)

    def destinations(self) -> list[tuple[str, int]]:
        """Return the destinations of waiting segments, with their number."""
        return self._database.read(_DESTINATIONS)

    def close(self) -> None:
        self._database.close()


_DECLARE_AGAIN = """
UPDATE sessions SET declared = 0 WHERE session = ? AND declaration IS NOT NULL
"""
_OWNERS = "SELECT session, destination, owner FROM sessions"
_UNDECLARED = """
SELECT run, session, declaration, COALESCE(uploads, 0)
    FROM sessions LEFT JOIN expired USING (session)
    WHERE NOT declared AND session IN (SELECT value FROM json_each(?))
    AND session NOT IN (SELECT session FROM held WHERE item = 'declaration')
"""
_NEWEST = """
SELECT run, session, seq, body FROM segments INDEXED BY waiting JOIN sessions USING (session)
    WHERE acknowledged IS NULL AND session IN (SELECT value FROM json_each(?))
    AND NOT EXISTS (SELECT 1 FROM held
        WHERE held.session = segments.session AND item = CAST(seq AS TEXT))
    ORDER BY attempts >= 5, segments.created DESC LIMIT 1
"""
"""The statement that finds the newest segment. One that fails repeatedly must not block the others.

Left alone, SQLite reads all accepted segments of the session, which takes 80 ms after a backlog.
"""
_OTHERS = """
SELECT seq, body FROM segments INDEXED BY waiting
    WHERE acknowledged IS NULL AND session = ? AND seq != ?
    AND NOT EXISTS (SELECT 1 FROM held
        WHERE held.session = segments.session AND item = CAST(seq AS TEXT))
    ORDER BY attempts >= 5, created DESC LIMIT ?
"""
_ANSWERED = """
SELECT MIN(seq) AS first, MAX(seq) FROM (SELECT seq, seq - ROW_NUMBER() OVER (ORDER BY seq) AS run
    FROM segments WHERE session = ? AND acknowledged IS NOT NULL)
    GROUP BY run ORDER BY first DESC LIMIT ?
"""
_BODY = "SELECT body, created FROM segments WHERE session = ? AND seq = ?"
_SPLIT = """
INSERT INTO segments (session, seq, body, created)
    SELECT ?1, column1, column2, ?6 FROM (VALUES (?2, ?3), (?4, ?5))
    WHERE EXISTS (SELECT 1 FROM segments WHERE session = ?1 AND seq = ?4 AND body = ?7)
    ON CONFLICT (session, seq) DO UPDATE SET body = excluded.body, attempts = 0
"""
"""Inserts both halves or none, and only if the segment is unchanged."""
_COUNTS = """
SELECT COUNT(*) FILTER (WHERE acknowledged IS NULL),
    COALESCE(SUM(LENGTH(body)) FILTER (WHERE acknowledged IS NULL), 0),
    COUNT(*) FILTER (WHERE acknowledged IS NOT NULL) FROM segments
    WHERE ?1 IS NULL OR session IN (SELECT value FROM json_each(?1))
"""
_COUNT_UNDECLARED = """
SELECT COUNT(*) FROM sessions
    WHERE NOT declared AND (?1 IS NULL OR session IN (SELECT value FROM json_each(?1)))
    AND session NOT IN (SELECT session FROM held WHERE item = 'declaration' AND refused)
"""
_LAST_ERROR = """
SELECT error FROM segments
    WHERE error != '' AND (?1 IS NULL OR session IN (SELECT value FROM json_each(?1)))
    ORDER BY created DESC LIMIT 1
"""
_DESTINATIONS = """
SELECT destination, COUNT(*) FROM segments JOIN sessions USING (session)
    WHERE acknowledged IS NULL GROUP BY destination
"""
_DONE_SESSIONS = """
SELECT session, owner FROM sessions WHERE created < ? AND declared
    AND NOT EXISTS (SELECT 1 FROM segments WHERE segments.session = sessions.session)
    AND NOT EXISTS (SELECT 1 FROM artefacts WHERE artefacts.session = sessions.session)
    AND NOT EXISTS (SELECT 1 FROM dead WHERE dead.session = sessions.session)
"""
_DELETE_OLD_PAUSES = "DELETE FROM postponed WHERE session NOT IN (SELECT session FROM sessions)"


def _json(values: Iterable[str]) -> str:
    """Return a list as one SQL parameter."""
    return json.dumps(list(values))
