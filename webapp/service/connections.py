"""Tasks keep their connections to the database, as requests do: opening one takes as long as a
small task.

With `CELERY_DB_REUSE_MAX`, Celery closes none itself, not even those that are broken.
"""

from __future__ import annotations

from typing import Any

from celery.signals import task_postrun, task_prerun
from django.db import close_old_connections


def close_only_old_ones() -> None:
    """Close, before and after each task, the connections that are broken or older than
    `CONN_MAX_AGE`.
    """
    for signal in (task_prerun, task_postrun):
        signal.connect(_close_old_connections, weak=False)


def _close_old_connections(**_: Any) -> None:
    close_old_connections()
