"""Celery's application as beat needs it: the schedule, and nothing of what the tasks load.

Beat sends tasks by their names. Without Django's apps, pandas and pyarrow it idles on 40 MB
instead of 130.
"""

from __future__ import annotations

import logging.config
import os
from typing import Any

from celery import Celery
from celery.signals import setup_logging
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

app = Celery("trimtab", fixups=[])
app.config_from_object("django.conf:settings", namespace="CELERY")


def log_as_django_does(**_: Any) -> None:
    logging.config.dictConfig(settings.LOGGING)
    # Every task that it sends is one line, day and night.
    logging.getLogger("celery.beat").setLevel(logging.WARNING)


setup_logging.connect(log_as_django_does, weak=False)
