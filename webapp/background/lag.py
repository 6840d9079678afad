"""Measures how long what has arrived and is due waits until it was processed, for each kind.

Each row remembers since when something waits in it. When that is done, the time is counted in
Redis, by minutes and in buckets, for all workers together. What still waits is read from the rows.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Min, QuerySet
from redis import RedisError

from webapp.background import conditions
from webapp.background.kinds import WorkKind
from webapp.http.redis_outage import Outage, client

MINUTES = 10
"""The figures are of as many minutes, and of the one that has begun."""
GROWTH = 1.1
"""The ratio of neighbouring buckets' bounds: a figure is at most a tenth too large."""
LEAST_SECONDS = 0.01

_outage = Outage("lags are not counted: Redis does not answer")


@dataclass(frozen=True)
class Lag:
    """Lag of what was done within the window, in seconds, each figure at most a tenth too large."""

    count: int
    p50_seconds: float
    p99_seconds: float
    longest_seconds: float


def count(kind: WorkKind[Any], waited: timedelta) -> None:
    """Count what waited so long and is now done."""
    bucket = _bucket(waited.total_seconds())
    key = _keys(kind, time.time())[0]

    def add() -> None:
        commands = client(settings.REDIS_URL).pipeline(transaction=False)
        commands.hincrby(key, str(bucket), 1)
        commands.expire(key, 60 * (MINUTES + 2))
        commands.execute()

    _outage.answer(add, None, RedisError)


def lag(kind: WorkKind[Any], now: float) -> Lag | None:
    """Return the lag; None if nothing was counted within the window, or Redis doesn't answer.

    Args:
        now: seconds since the Unix epoch.
    """

    def ask() -> list[dict[bytes, bytes]]:
        commands = client(settings.REDIS_URL).pipeline(transaction=False)
        for key in _keys(kind, now):
            commands.hgetall(key)
        return list(commands.execute())

    counts = Counter[int]()
    minutes: list[dict[bytes, bytes]] = _outage.answer(ask, [], RedisError)
    for minute in minutes:
        counts.update({int(bucket): int(rows) for bucket, rows in minute.items()})
    return _figures(counts) if counts else None


def waiting_since(rows: QuerySet[Any], now: datetime) -> datetime | None:
    """Return since when something waits in these rows, or None if nothing does."""
    waiting = rows.filter(conditions.is_open(), waiting_since__lte=now)
    oldest = waiting.aggregate(since=Min("waiting_since"))
    return oldest["since"]  # type: ignore[no-any-return]


def _figures(counts: Counter[int]) -> Lag:
    total = counts.total()
    return Lag(total, _quantile(counts, 0.5), _quantile(counts, 0.99), _bound(max(counts)))


def _quantile(counts: Counter[int], share: float) -> float:
    """Return the upper bound of the bucket of the smallest lag that this share doesn't exceed."""
    rank = math.ceil(share * counts.total())
    seen = 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= rank:
            return _bound(bucket)
    raise AssertionError


def _bucket(seconds: float) -> int:
    return math.ceil(math.log(max(seconds, LEAST_SECONDS) / LEAST_SECONDS, GROWTH))


def _bound(bucket: int) -> float:
    """Return the bucket's upper bound in seconds."""
    return float(LEAST_SECONDS * GROWTH**bucket)


def _keys(kind: WorkKind[Any], now: float) -> list[str]:
    """Return the keys of the window's minutes, the newest first."""
    prefix, minute = settings.CACHES["default"]["KEY_PREFIX"], int(now) // 60
    return [f"{prefix}:lag:{kind.id}:{minute - age}" for age in range(MINUTES + 1)]
