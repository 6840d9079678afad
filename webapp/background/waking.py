"""Wakes workers by messages that name no row: a worker that gets one looks for due rows itself.

At most one message waits for a worker. A worker that begins and finds more than one due row wakes
the next, so all of them are at work within moments; one that could begin nothing a moment ago
leaves that to the others. A message that is lost, or a Redis that is
away, costs time only: the sweep wakes workers again.
"""

from __future__ import annotations

from typing import Any

from celery import current_app
from django.conf import settings
from django.db import transaction
from django.utils import timezone
from kombu.exceptions import OperationalError
from redis import RedisError

from webapp.background import conditions
from webapp.background.kinds import WorkKind
from webapp.http.redis_outage import Outage, client

TASK, QUEUE = "background.pull", "work"
SENDING_SECONDS = 5
"""The time for which others may take a message for sent while it is being sent."""

_outage = Outage("workers are not woken: Redis does not answer")


def wake() -> None:
    """Have a worker look for due rows, unless one is about to. Call after the commit."""
    _outage.answer(_wake, None, (RedisError, OperationalError))


def wake_on_commit(kind: WorkKind[Any], **which: object) -> None:
    """Wake a worker after the transaction if it leaves one of these rows due."""

    def wake_if_due() -> None:
        if conditions.due_rows(kind, timezone.now()).filter(**which).exists():
            wake()

    transaction.on_commit(wake_if_due)


def is_awake() -> None:
    """Note that a worker has begun: what becomes due from now on needs another message."""
    _outage.answer(lambda: client(settings.REDIS_URL).delete(_mark()), None, RedisError)


def _wake() -> None:
    commands = client(settings.REDIS_URL).pipeline(transaction=False)
    commands.set(_mark(), 1, nx=True, ex=SENDING_SECONDS)
    commands.llen(f"{settings.CELERY_BROKER_TRANSPORT_OPTIONS['global_keyprefix']}{QUEUE}")
    is_ours, waiting = commands.execute()
    if is_ours and not waiting:
        current_app.send_task(TASK, retry=False)


def _mark() -> str:
    """Return the key that exists while a message is sent and not yet received."""
    return f"{settings.CACHES['default']['KEY_PREFIX']}:waking"
