"""Celery's task for all background work."""

from __future__ import annotations

from celery import shared_task

from webapp.background import handing_out
from webapp.background.kinds import all_kinds


@shared_task(name="background.sweep")
def sweep() -> None:
    """Send all due rows of every kind to the broker."""
    for kind in all_kinds():
        handing_out.sweep(kind)
