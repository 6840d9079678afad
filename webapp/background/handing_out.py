"""Wakes workers: sends the ids of due rows to the broker, up to a limit."""

from __future__ import annotations

import logging
from datetime import datetime

from celery import current_app
from django.db.models import Q, QuerySet
from django.utils import timezone
from kombu.exceptions import OperationalError

from webapp.background import conditions, fairness
from webapp.background.kinds import Kind, Row

logger = logging.getLogger(__name__)


def sweep(kind: Kind[Row]) -> int:
    """Send due, unqueued rows to the broker, and give up the rows that killed too many workers.

    Returns:
        The number of rows sent.
    """
    _give_up_worn_out(kind, timezone.now())
    return refill(kind)


def refill(kind: Kind[Row]) -> int:
    """Hand out what comes next, workspace by workspace; how many rows that were."""
    now = timezone.now()
    return _send(kind, fairness.in_turn(kind, _idle(kind, now), _room(kind, now), now))


def hand_out(kind: Kind[Row], **which: object) -> int:
    """Hand out these rows at once, as far as they are due and it is their workspace's turn; how
    many that were."""
    now = timezone.now()
    idle = _idle(kind, now).filter(**which)
    # With most uploads nothing is due yet.
    if not idle.exists():
        return 0
    most = _room(kind, now) if kind.limits.is_shared else kind.limits.most_queued
    return _send(kind, fairness.in_turn(kind, idle, most, now))


def _idle(kind: Kind[Row], now: datetime) -> QuerySet[Row]:
    """Rows that are due and not queued."""
    forgotten = now - kind.limits.hand_out_again_after
    return conditions.due(kind, now).filter(Q(queued_at=None) | Q(queued_at__lt=forgotten))


def _room(kind: Kind[Row], now: datetime) -> int:
    """How many more rows may be sent to the broker now, in whole messages."""
    limits = kind.limits
    recently = now - limits.hand_out_again_after
    queued = kind.rows.filter(conditions.is_open(), queued_at__gte=recently).count()
    return max(limits.most_queued - queued, 0) // limits.batch * limits.batch


def _send(kind: Kind[Row], keys: list[object]) -> int:
    for start in range(0, len(keys), kind.limits.batch):
        if not _send_one(kind, keys[start : start + kind.limits.batch]):
            return start
    return len(keys)


def _send_one(kind: Kind[Row], keys: list[object]) -> bool:
    """Returns False if the broker can't be reached. This isn't an error: the sweep retries."""
    named = kind.rows.filter(**{f"{kind.key}__in": keys})
    # Before sending, because a fast worker may finish at once and clear this mark.
    named.update(queued_at=timezone.now())
    ids = [key if isinstance(key, int) else str(key) for key in keys]
    try:
        current_app.send_task(kind.task, args=[ids] if kind.limits.batch > 1 else ids, retry=False)
    except OperationalError as error:
        named.update(queued_at=None)
        logger.warning("broker unreachable; the sweep tries again", extra={"error": str(error)})
        return False
    return True


def _give_up_worn_out(kind: Kind[Row], now: datetime) -> None:
    """The lease is kept: if the last worker was only slow, its result counts."""
    worn_out = conditions.worn_out(kind, now)
    if worn_out.exists():
        error = f"Given up: {kind.limits.max_kills} workers died while they worked on it."
        worn_out.update(given_up_at=now, error=error, **kind.given_up)
