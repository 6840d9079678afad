"""Keeps the spool under its cap: coarser before fewer, and nothing vanishes without a gap."""

from __future__ import annotations

from contextlib import suppress

from trimtab.spool.rows import Rows
from trimtab.spool.thinning import emptied, thinned
from trimtab.wire import WireError, decode_segment, encode_segment

_SHRINKERS = (thinned, emptied)
"""By level: a full segment (0) is thinned, a thinned one (1) is emptied but for its events."""

_DROP_TAKEN = """
DELETE FROM segments WHERE rowid IN (SELECT rowid FROM segments WHERE acknowledged IS NOT NULL
    ORDER BY acknowledged LIMIT 50)
"""
_OLDEST = """
SELECT session, seq, body FROM segments WHERE acknowledged IS NULL AND level = ?
    ORDER BY created LIMIT 20
"""
_REPLACE = """
UPDATE segments SET body = ?1, level = ?2 + 1
    WHERE session = ?3 AND seq = ?4 AND level = ?2 AND body = ?5
"""
"""Not what another agent has shrunk or split meanwhile: a segment tells its gap before it goes."""
_DROP_OLDEST = """
DELETE FROM segments WHERE rowid IN (SELECT rowid FROM segments WHERE acknowledged IS NULL
    ORDER BY created LIMIT 20)
"""
_MOST_ROUNDS = 50


def make_room(rows: Rows, needed_bytes: int, cap_bytes: int) -> None:
    """Until `needed_bytes` more fit, or this call has done enough: the next one goes on."""
    with rows.lock:
        for _ in range(_MOST_ROUNDS):
            if rows.used_bytes() + needed_bytes <= cap_bytes or not _shrink(rows):
                return


def _shrink(rows: Rows) -> bool:
    """One step: first what the service has, then the oldest samples, at last whole segments."""
    if rows.write(_DROP_TAKEN):
        return True
    for level, smaller in enumerate(_SHRINKERS):
        oldest = rows.read(_OLDEST, level)
        for session, seq, body in oldest:
            small = body
            with suppress(WireError):
                small = encode_segment(smaller(decode_segment(body)))
            rows.write(_REPLACE, min(body, small, key=len), level, session, seq, body)
        if oldest:
            return True
    return rows.write(_DROP_OLDEST) > 0
