"""Celery's tasks of mail."""

from __future__ import annotations

from celery import shared_task
from django.utils import timezone

from webapp.background import handing_out
from webapp.notify import delivery, password_reset, queue, subscriptions
from webapp.notify.addresses import sender_domain
from webapp.notify.kinds import KINDS


@shared_task(name="notify.sweep")
def sweep() -> None:
    """Write a row for each mail that is due, and send the unclaimed ones to workers."""
    for kind in KINDS.values():
        subscriptions.enrol(kind.id)
        queue.write(kind.id, kind.due(timezone.now()), sender_domain())
    handing_out.sweep(queue.KIND)
    password_reset.forget_old()


@shared_task(name=queue.KIND.task)
def send(mail_ids: list[int]) -> None:
    delivery.send(mail_ids)


@shared_task(name=password_reset.KIND.task)
def send_password_reset(reset_id: int) -> None:
    password_reset.send(reset_id)
