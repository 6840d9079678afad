"""Keeps the spool below its limit: thins old segments, then drops them and records a gap."""

from __future__ import annotations

from contextlib import suppress

from trimtab.spool.database import SpoolDatabase
from trimtab.spool.dead import DeadLetters
from trimtab.spool.thinning import empty_segment, thin_segment
from trimtab.wire import WireError, decode_segment, encode_segment

_SHRINKERS = (thin_segment, empty_segment)
"""The functions that shrink a segment, by its level: a full segment (0) is thinned, a thinned one
(1) is reduced to its events."""

_DROP_TAKEN = """
DELETE FROM segments WHERE rowid IN (SELECT rowid FROM segments WHERE acknowledged IS NOT NULL
    ORDER BY acknowledged LIMIT 50)
"""
_OLDEST = """
SELECT session, seq, body FROM segments WHERE acknowledged IS NULL AND level = ?
    ORDER BY created LIMIT 20
"""
_REPLACE = """
REPLACE INTO segments (session, seq, body, created, level, attempts, error)
    SELECT session, seq, ?1, created, ?2, attempts, error FROM segments
    WHERE session = ?3 AND seq = ?4 AND level = ?5 AND body = ?6 AND acknowledged IS NULL
"""
"""The statement that inserts a smaller segment as a new row, because a smaller row in its old place
frees no page.

Skips segments that another agent has shrunk or split meanwhile, so that no gap is lost.
"""
_DROP_OLDEST = """
DELETE FROM segments WHERE rowid IN (SELECT rowid FROM segments WHERE acknowledged IS NULL
    ORDER BY created LIMIT 20)
"""
_MOST_ROUNDS = 50
_WORTH_THINNING = 0.75
"""The least gain: on an idle machine a full segment is hardly larger than its minimum, mean and
maximum."""


def make_room(database: SpoolDatabase, needed_bytes: int, cap_bytes: int) -> None:
    """Free space for `needed_bytes`, in a limited number of steps; the next call continues."""
    with database.lock:
        for _ in range(_MOST_ROUNDS):
            if database.used_bytes() + needed_bytes <= cap_bytes or not _shrink(database):
                return


def _shrink(database: SpoolDatabase) -> bool:
    """Do one step: drop uploaded segments, then refused ones, then shrink the oldest, then drop
    it.
    """
    if database.write(_DROP_TAKEN) or DeadLetters(database).make_room():
        return True
    for level in range(len(_SHRINKERS)):
        oldest = database.read(_OLDEST, level)
        for session, seq, body in oldest:
            small, new_level = _shrunk(body, level)
            database.write(_REPLACE, small, new_level, session, seq, level, body)
        if oldest:
            return True
    return database.write(_DROP_OLDEST) > 0


def _shrunk(body: bytes, level: int) -> tuple[bytes, int]:
    """Return a smaller body, and its new level."""
    small = body
    with suppress(WireError):
        small = encode_segment(_SHRINKERS[level](decode_segment(body)))
    if level == 0 and len(small) > len(body) * _WORTH_THINNING:
        return _shrunk(body, 1)
    return min(body, small, key=len), level + 1
