"""Times of day as files write them."""

from __future__ import annotations

from datetime import UTC, datetime

EARLIEST_SECONDS, LATEST_SECONDS = 1_262_304_000, 4_102_444_800
"""2010 to 2099, in Unix seconds. Other times are damaged ones."""


def time_ms(said: str) -> int | None:
    """Return the ms of Unix seconds, ms, µs or ns, or of ISO 8601 (UTC if it names no zone)."""
    try:
        number = float(said)
    except ValueError:
        return _iso_ms(said)
    for unit in (1.0, 1e3, 1e6, 1e9):
        if EARLIEST_SECONDS < number / unit < LATEST_SECONDS:
            return round(number / unit * 1000)
    return None


def is_possible(seconds: float) -> bool:
    """Return whether a Unix time can be that of a recording."""
    return EARLIEST_SECONDS < seconds < LATEST_SECONDS


def _iso_ms(said: str) -> int | None:
    try:
        moment = datetime.fromisoformat(said.strip())
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        seconds = moment.timestamp()
    except OverflowError:
        return None
    return round(seconds * 1000) if is_possible(seconds) else None
