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
from trimtab.spool.database import Database
from trimtab.spool.eviction import make_room
from trimtab.spool.ownership import NOBODY, is_alive, is_drainer, own_name
from trimtab.spool.splitting import halves
from trimtab.wire import WireError, decode_segment, encode_segment

CAP_BYTES = 256 * 1024 * 1024
MEMORY_CAP_BYTES = 16 * 1024 * 1024
DEAD_BYTES = 16 * 1024 * 1024
KEPT_SECONDS = 15 * 60.0


@dataclass(frozen=True)
class Waiting:
    """One segment that the service hasn't accepted yet."""

    run: str
    session: str
    seq: int
    body: bytes


@dataclass(frozen=True)
class Declared:
    """The declaration of a run and its node, ready for upload."""

    run: str
    session: str
    body: bytes


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
        self._database = Database(path)
        self._cap_bytes = cap_bytes
        self._problem = problem
        self.artefacts = Artefacts(self._database)

    @property
    def path(self) -> Path | None:
        """The file; None in memory."""
        return self._database.path

    @property
    def problem(self) -> str:
        return self._database.problem or self._problem

    # What the agent keeps

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

    def add(self, session: str, seq: int, body: bytes) -> None:
        """Store a sealed segment until the service has accepted it."""
        cap_bytes = self._cap_bytes if self.path else min(self._cap_bytes, MEMORY_CAP_BYTES)
        make_room(self._database, len(body), cap_bytes)
        sql = "INSERT OR IGNORE INTO segments (session, seq, body, created) VALUES (?, ?, ?, ?)"
        self._database.write(sql, session, seq, body, time.time(), repeat=True)

    # What is to be sent

    def undeclared(self, sessions: Iterable[str]) -> list[Declared]:
        return [Declared(*row) for row in self._database.read(_UNDECLARED, _json(sessions))]

    def waiting(self, sessions: Iterable[str]) -> Waiting | None:
        """The newest segment of these sessions that the service hasn't accepted."""
        rows = self._database.read(_NEWEST, _json(sessions))
        return Waiting(*rows[0]) if rows else None

    def declared(self, session: str, body: bytes) -> None:
        """The service accepted this declaration, or will never accept it."""
        sql = "UPDATE sessions SET declared = 1 WHERE session = ? AND declaration = ?"
        self._database.write(sql, session, body)

    def acknowledge(self, session: str, seq: int) -> None:
        sql = "UPDATE segments SET acknowledged = ?, error = '' WHERE session = ? AND seq = ?"
        self._database.write(sql, time.time(), session, seq)

    def asked_again(self, session: str, seq: int) -> None:
        """The service lost a segment that it had accepted; send it again if it is still stored."""
        sql = "UPDATE segments SET acknowledged = NULL WHERE session = ? AND seq = ?"
        self._database.write(sql, session, seq)

    def failed(self, session: str, seq: int, error: str) -> None:
        sql = "UPDATE segments SET attempts = attempts + 1, error = ? WHERE session = ? AND seq = ?"
        self._database.write(sql, error[:500], session, seq)

    def bury(self, session: str, seq: int, reason: str) -> None:
        """Set apart a segment that the service will never accept; at most 16 MiB of the newest."""
        with self._database.lock:
            self._database.write(_COPY_TO_DEAD, reason[:500], session, seq)
            self._database.write("DELETE FROM segments WHERE session = ? AND seq = ?", session, seq)
            self._database.write(_BOUND_DEAD, DEAD_BYTES)

    def split(self, session: str, seq: int) -> bool:
        """Replace a segment that is too large by its halves. False if it can't be halved."""
        for body, created in self._database.read(_BODY, session, seq):
            with suppress(WireError):
                if parts := halves(decode_segment(body)):
                    first, second = ((part.seq, encode_segment(part)) for part in parts)
                    self._database.write(_SPLIT, session, *first, *second, created, body)
                    return True
        return False

    # Who sends it

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
        """Retry if another process took the session in between: it may be a drainer."""
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
        for session, owner in self._database.read(_DONE_SESSIONS, before):
            if not is_alive(owner):
                self._database.write("DELETE FROM sessions WHERE session = ?", session)
        self._database.checkpoint()

    def contents(self, sessions: Iterable[str] | None = None) -> Contents:
        """The contents for these sessions; default all."""
        sessions = None if sessions is None else list(sessions)
        chosen = None if sessions is None else _json(sessions)
        waiting, waiting_bytes, taken = self._database.read(_COUNTS, chosen)[0]
        dead = self._database.read(_COUNT_DEAD, chosen)[0][0]
        undeclared = self._database.read(_COUNT_UNDECLARED, chosen)[0][0]
        errors = self._database.read(_LAST_ERROR, chosen)
        last_error = errors[0][0] if errors else ""
        files = self.artefacts.count(sessions)
        return Contents(waiting, waiting_bytes, taken, dead, undeclared, files, last_error)

    def destinations(self) -> list[tuple[str, int]]:
        """The destinations of waiting segments, with their number."""
        return self._database.read(_DESTINATIONS)

    def close(self) -> None:
        self._database.close()


_OWNERS = "SELECT session, destination, owner FROM sessions"
_UNDECLARED = """
SELECT run, session, declaration FROM sessions
    WHERE NOT declared AND session IN (SELECT value FROM json_each(?))
"""
_NEWEST = """
SELECT run, session, seq, body FROM segments JOIN sessions USING (session)
    WHERE acknowledged IS NULL AND session IN (SELECT value FROM json_each(?))
    ORDER BY attempts >= 5, segments.created DESC LIMIT 1
"""
"""A segment that fails repeatedly must not block the others."""
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
_COUNT_DEAD = """
SELECT COUNT(*) FROM dead WHERE ?1 IS NULL OR session IN (SELECT value FROM json_each(?1))
"""
_COUNT_UNDECLARED = """
SELECT COUNT(*) FROM sessions
    WHERE NOT declared AND (?1 IS NULL OR session IN (SELECT value FROM json_each(?1)))
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
_COPY_TO_DEAD = """
INSERT OR REPLACE INTO dead SELECT session, seq, body, created, ? FROM segments
    WHERE session = ? AND seq = ?
"""
_BOUND_DEAD = """
DELETE FROM dead WHERE rowid IN (SELECT rowid FROM (SELECT rowid,
    SUM(LENGTH(body)) OVER (ORDER BY created DESC, rowid DESC) AS held FROM dead) WHERE held > ?)
"""
_DONE_SESSIONS = """
SELECT session, owner FROM sessions WHERE created < ? AND declared
    AND NOT EXISTS (SELECT 1 FROM segments WHERE segments.session = sessions.session)
    AND NOT EXISTS (SELECT 1 FROM artefacts WHERE artefacts.session = sessions.session)
"""


def _json(values: Iterable[str]) -> str:
    """A list as one SQL parameter."""
    return json.dumps(list(values))
