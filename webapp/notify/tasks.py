"""Celery's task of mail."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from webapp.background import waking
from webapp.notify import password_reset, queue, subscriptions
from webapp.notify.addresses import sender_domain
from webapp.notify.kinds import KINDS


@shared_task(name="notify.sweep")
def sweep() -> None:
    """Write a row for each mail that is due."""
    for kind in KINDS.values():
        subscriptions.enrol(kind.id)
        queue.write(kind.id, kind.due(timezone.now()), sender_domain())
    password_reset.forget_old()
    waking.wake()
