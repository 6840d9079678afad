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
from kombu.exceptions import OperationalError

from webapp.service import pulse

MOST_WAITING = 20
"""The most messages of the schedule that wait; more would say nothing new. Each entry is among
them."""
OFTEN_SECONDS = 3600
MEND_CLOCK = "background.mend_clock"
AGAIN_SECONDS = 5.0
"""The seconds until the next try to send the message."""

logger = logging.getLogger(__name__)

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
        pulse.send_pulse()
        is_mended = self._mend_times()
        seconds = float(super().tick(*args, **options))
        return seconds if is_mended else min(seconds, AGAIN_SECONDS)

    def _mend_times(self) -> bool:
        """Mend entries and rows after the clock was set back; otherwise they would wait until it is
        there again. Return False if the workers couldn't be told about the rows.
        """
        now = self.app.now()
        ahead = [entry for entry in self.schedule.values() if entry.last_run_at > now]
        if not ahead:
            return True
        set_back = max(entry.last_run_at for entry in ahead) - now
        try:
            self.send_task(MEND_CLOCK, (set_back.total_seconds(),), queue="schedule", retry=False)
        except OperationalError as error:
            logger.warning("the clock was set back, and workers can't be told", exc_info=error)
            return False
        for entry in ahead:
            entry.last_run_at = now
        self.populate_heap()
        return True

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:
        is_often = entry.schedule.run_every.total_seconds() < OFTEN_SECONDS
        if not is_often or self._waiting(entry, producer) < MOST_WAITING:
            super().apply_entry(entry, producer)

    def _waiting(self, entry: ScheduleEntry, producer: Any) -> int:
        """Return the messages in the entry's queue; 0 if they can't be counted, because sending
        then reports the error.
        """
        try:
            return int(producer.channel.queue_declare(entry.options["queue"]).message_count)
        except Exception:
            return 0
