"""Times as whole microseconds since 1970, which compare and subtract exactly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime.fromtimestamp(0, UTC)


def unix_us(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def moment(us: int) -> datetime:
    return _EPOCH + timedelta(microseconds=us)
