"""Range queries of a Prometheus server, saved as it answers them.

https://prometheus.io/docs/prometheus/latest/querying/api/#range-queries
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from trimtab.fetching.server import AnswerTooLargeError, FetchError, Server

PREFIX = "PROMETHEUS"
"""The beginning of the variables with its credentials."""
DEFAULT_QUERY = '{__name__=~"DCGM_FI_.+"}'
_PATH = "api/v1/query_range"
_POINTS = 2_000
"""The points of one request. Prometheus refuses more than 11,000, and an answer is read as a
whole."""
_MOST_BYTES = 48 * 1024 * 1024
_MOST_FILES = 1_000
_STEP = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_EMPTY = re.compile(rb'"result"\s*:\s*\[\s*\]')
_SUCCESS = re.compile(rb'\s*\{\s*"status"\s*:\s*"success"')
_HEAD_BYTES = 4096


@dataclass(frozen=True)
class QueryRange:
    """Range in Unix seconds; both ends are included, and may be the same."""

    start: float
    end: float
    step: float

    @property
    def points(self) -> int:
        return int((self.end - self.start) / self.step + 1e-9) + 1

    def pieces(self, points: int) -> Iterator[QueryRange]:
        """Yield parts of so many points at most, none of them twice."""
        for first in range(0, self.points, points):
            last = min(first + points, self.points) - 1
            begin = self.start + first * self.step
            yield QueryRange(begin, self.start + last * self.step, self.step)


def moment(text: str) -> float:
    """Return Unix seconds from Unix seconds, or from ISO 8601 with its time zone.

    Raises:
        ValueError: with a sentence.
    """
    try:
        seconds = float(text)
    except ValueError:
        pass
    else:
        if not 0 < seconds < 4_102_444_800:
            raise ValueError(f"{text} is not a time in Unix seconds.")
        return seconds
    try:
        at = datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)
    except ValueError:
        raise ValueError(f"{text} is not a time. Example: 2026-11-01T08:00:00Z.") from None
    if at.tzinfo is None:
        whole = at.isoformat()
        raise ValueError(f"{text} names no time zone. Write {whole}Z for UTC, or {whole}+01:00.")
    return at.timestamp()


def step_seconds(text: str) -> float:
    """Parse `15s`, `1m` or `15`. Raises ValueError with a sentence."""
    found = _STEP.fullmatch(text)
    seconds = float(found[1]) * _UNITS[found[2] or "s"] if found else 0.0
    if not 0.1 <= seconds <= 3600:
        raise ValueError(f"{text} is not a step from 100ms to 1h. Example: 15s.")
    return seconds


def fetch(server: Server, query: str, asked: QueryRange, into: Path) -> int:
    """Save the answers as files of a folder. Returns how many.

    Raises:
        FetchError
    """
    saved, some = 0, False
    for piece in asked.pieces(_POINTS):
        for body in _bodies(server, query, piece):
            saved += 1
            if saved > _MOST_FILES:
                raise FetchError("the answers are too many. Use a longer --step or a shorter time.")
            some = some or not _EMPTY.search(body[:_HEAD_BYTES])
            (into / f"{saved:05d}.json").write_bytes(body)
    if not some:
        raise FetchError(
            f"{server.host} has no series for {query} between --start and --end. Check the query, "
            "and the time zone of both."
        )
    return saved


def _bodies(server: Server, query: str, piece: QueryRange) -> Iterator[bytes]:
    """Yield the answer; if it is too large, those of its halves."""
    asked = {
        "query": query,
        "start": f"{piece.start:.3f}",
        "end": f"{piece.end:.3f}",
        "step": f"{piece.step:g}",
    }
    try:
        body = server.get(_PATH, asked, _MOST_BYTES)
    except AnswerTooLargeError:
        if piece.points == 1:
            raise FetchError("a single point is too large. Name fewer series by --query.") from None
        for half in piece.pieces(math.ceil(piece.points / 2)):
            yield from _bodies(server, query, half)
        return
    if not _SUCCESS.match(body[:_HEAD_BYTES]):
        raise FetchError(f"{server.host} gives no answer of Prometheus. Check the address.")
    yield body
