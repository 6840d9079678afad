"""Celery's application as beat needs it: the schedule, and nothing of what the tasks load.

Beat sends tasks by their names. Without Django's apps, pandas and pyarrow it idles on 40 MB
instead of 130.
"""

from __future__ import annotations

import logging.config
import os
from typing import Any

from celery import Celery
from celery.beat import PersistentScheduler, ScheduleEntry
from celery.signals import setup_logging
from django.conf import settings

from webapp.service import pulse

MOST_WAITING = 20
"""Messages of the schedule: more say nothing new. Each entry is among them."""
OFTEN_SECONDS = 3600

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

app = Celery("trimtab", fixups=[])
app.config_from_object("django.conf:settings", namespace="CELERY")


def log_as_django_does(**_: Any) -> None:
    logging.config.dictConfig(settings.LOGGING)
    # Every task that it sends is one line, day and night.
    logging.getLogger("celery.beat").setLevel(logging.WARNING)


setup_logging.connect(log_as_django_does, weak=False)


class Scheduler(PersistentScheduler):  # type: ignore[misc]
    """Adds nothing to the queue while workers have enough of it waiting."""

    def tick(self, *args: Any, **options: Any) -> float:
        pulse.give()
        self._mend_times()
        return float(super().tick(*args, **options))

    def _mend_times(self) -> None:
        """After the clock was set back, entries would wait until it is there again."""
        now = self.app.now()
        ahead = [entry for entry in self.schedule.values() if entry.last_run_at > now]
        for entry in ahead:
            entry.last_run_at = now
        if ahead:
            self.populate_heap()

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        is_often = entry.schedule.run_every.total_seconds() < OFTEN_SECONDS
        if not is_often or self._waiting(entry, producer) < MOST_WAITING:
            super().apply_entry(entry, producer)

    def _waiting(self, entry: ScheduleEntry, producer: Any) -> int:
        """Messages in the entry's queue; 0 if nobody can tell: sending it tells the error."""
        try:
            return int(producer.channel.queue_declare(entry.options["queue"]).message_count)
        except Exception:
            return 0
