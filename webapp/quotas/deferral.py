"""Counts uploads in this process for a second, while a workspace is far from its limits.

Redis then counts them with one question instead of hundreds. Not for the first upload of a run,
nor where a hundredth of a limit is at stake: those are counted before they are written. A process
that is killed forgets a second of uploads; what is stored is counted from the rows now and then.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from webapp.accounts.models import Token, Workspace
from webapp.quotas import counters
from webapp.quotas.amounts import UploadAmounts
from webapp.quotas.kinds import TOKEN_UPLOADED, UPLOADED

SECONDS = 1.0
LEAST_PART = 100
"""The part of each limit that is counted here at most: one in so many."""

_lock = threading.Lock()


@dataclass
class _Count:
    """Count of one workspace and token, until the next question to Redis."""

    until: float = 0.0
    """The end of the count in monotonic seconds."""
    body_bytes: int = 0
    stored_bytes: int = 0


_counts: dict[tuple[str, ...], _Count] = {}
"""The counts by the keys of the storage and the windows of what is uploaded."""


def begin_deferral(workspace: Workspace, token: Token | None) -> None:
    """Begin to count here, because Redis has just counted an upload and said that it is far from
    each limit.
    """
    own, now = _keys(workspace, token), time.monotonic()
    with _lock:
        over = {keys: _counts.pop(keys) for keys in _over(own, now)}
        _counts[own] = _Count(now + SECONDS)
    _tell(over)


def _over(own: tuple[str, ...], now: float) -> list[tuple[str, ...]]:
    """Return the counts that end. Other tokens' deferrals continue; otherwise each question would
    end all of them.
    """
    return [keys for keys, count in _counts.items() if keys == own or now >= count.until]


def count_deferred(
    workspace: Workspace, token: Token | None, upload: UploadAmounts, limits: Sequence[int]
) -> bool:
    """Count an upload here; return False if Redis has to be asked."""
    with _lock:
        count = _counts.get(_keys(workspace, token))
        if count is None or upload.is_new_run or time.monotonic() >= count.until:
            return False
        body_bytes = count.body_bytes + upload.body_bytes
        if any(body_bytes * LEAST_PART > limit for limit in limits):
            return False
        count.body_bytes = body_bytes
        count.stored_bytes += upload.stored_bytes
    return True


def uncount_deferred(workspace: Workspace, token: Token | None, upload: UploadAmounts) -> None:
    """Remove an upload from the count, even if Redis has learnt of it meanwhile."""
    with _lock:
        count = _counts.setdefault(_keys(workspace, token), _Count())
        count.body_bytes -= upload.body_bytes
        count.stored_bytes -= upload.stored_bytes


def flush() -> None:
    """Add to Redis what was counted here."""
    with _lock:
        taken = dict(_counts)
        _counts.clear()
    _tell(taken)


def _tell(taken: dict[tuple[str, ...], _Count]) -> None:
    for keys, count in taken.items():
        if count.body_bytes or count.stored_bytes:
            counters.ask_redis(partial(_add, keys=keys, count=count), None)


def _add(known: counters.Counters, keys: tuple[str, ...], count: _Count) -> None:
    storage, *windows = keys
    pipeline = known.redis.pipeline(transaction=False)
    for window in windows:
        pipeline.hincrby(window, str(counters.hour_now()), count.body_bytes)
    pipeline.hincrby(storage, "since", count.stored_bytes)
    pipeline.execute()


def _keys(workspace: Workspace, token: Token | None) -> tuple[str, ...]:
    keys = counters.storage(workspace.pk), counters.window(UPLOADED, workspace.pk)
    return keys if token is None else (*keys, counters.window(TOKEN_UPLOADED, token.pk))
