"""Celery's tasks for all background work."""

from __future__ import annotations

from datetime import timedelta

from celery import shared_task

from webapp.background import clock, pulling, waking

MOST_SECONDS = 7 * 86_400
"""Each piece of work has a time limit of its own. A host of imports continues as uploads come."""


# The message is acknowledged as soon as a worker has it: it isn't the work, and a killed worker's
# message that came back after half an hour would say nothing.
@shared_task(name=waking.TASK, acks_late=False, soft_time_limit=None, time_limit=MOST_SECONDS)
def pull() -> None:
    """Work on due rows."""
    pulling.pull()


@shared_task(name="background.sweep")
def sweep() -> None:
    """Wake a worker if anything is due."""
    pulling.sweep()


@shared_task(name="background.mend_clock")
def mend_clock(set_back_seconds: float) -> None:
    """Mend the rows after the clock was set back."""
    clock.mend_rows(timedelta(seconds=set_back_seconds))
