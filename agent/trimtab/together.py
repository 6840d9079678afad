"""Chooses which segments of a backlog go in one request.

A request with several settles only what the service accepts. Everything else (what is refused, too
large, or postponed) is sent by itself afterwards, so that it is treated as it always is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from trimtab.spool import Spool, WaitingSegment
from trimtab.transport import ServiceAnswer, UploadVerdict
from trimtab.wire import LENGTH_BYTES

MOST_SEGMENTS, MOST_BYTES = 32, 256 * 1024
"""Five minutes of samples; below what proxies accept by default, and answered within seconds."""
REST_SECONDS = 10.0
"""The time after a request with several segments that failed as a whole. Until then segments are
sent one by one: perhaps only such requests fail."""
_BUSY = (429, 503)
_UNKNOWN = (404, 405)
_PASSING = (UploadVerdict.LATER, UploadVerdict.NOT_ALLOWED)


class SegmentBatcher:
    """Chooses segments, and learns from the answers."""

    def __init__(self) -> None:
        self._is_known = True
        """False if the service is older, and takes one segment a request."""
        self._most_bytes = MOST_BYTES
        self._rests_until = 0.0
        self._alone: set[tuple[str, int]] = set()

    def with_others(self, newest: WaitingSegment, spool: Spool) -> list[WaitingSegment]:
        """Return the segment, and others of its session that can be sent with it."""
        chosen = [newest]
        if not self._is_known or time.monotonic() < self._rests_until or self._must_wait(newest):
            return chosen
        left = self._most_bytes - len(newest.body) - LENGTH_BYTES
        for other in spool.more_of_session(newest, MOST_SEGMENTS - 1):
            left -= len(other.body) + LENGTH_BYTES
            if left < 0:
                break
            if not self._must_wait(other):
                chosen.append(other)
        return chosen

    def learn(
        self, several: Sequence[WaitingSegment], answer: ServiceAnswer
    ) -> list[ServiceAnswer]:
        """Return what the service answered to each segment; empty if the request failed as a
        whole.
        """
        rows = answer.answers_by_segment(len(several))
        for segment, row in zip(several, rows):
            if row.verdict is not UploadVerdict.TAKEN and row.status not in _BUSY:
                self._alone.add((segment.session, segment.seq))
        if answer.is_problem and answer.status in _UNKNOWN:
            self._is_known = False
        elif answer.verdict is UploadVerdict.TOO_LARGE:
            self._most_bytes //= 2
        elif not rows:
            self._rests_until = time.monotonic() + REST_SECONDS
        return rows

    def _must_wait(self, segment: WaitingSegment) -> bool:
        return (segment.session, segment.seq) in self._alone


def deciding_answer(answer: ServiceAnswer, rows: Sequence[ServiceAnswer]) -> ServiceAnswer | None:
    """Return the answer that says whether to pause; None if a segment can be sent by itself at
    once.

    A service that is busy says so for each segment that it left out.
    """
    if not rows:
        return answer if answer.verdict in _PASSING else None
    busy = [row for row in rows if row.status in _BUSY]
    taken = [row for row in rows if row.verdict is UploadVerdict.TAKEN]
    if not busy and not taken:
        return None
    deciding = (busy or taken)[0]
    pause = deciding.retry_after_seconds or answer.retry_after_seconds
    return replace(deciding, retry_after_seconds=pause)
