"""The Celery application. Its settings are in `webapp.settings`, prefixed `CELERY_`."""

import os
import signal
from typing import Any

from celery import Celery
from celery.signals import worker_init, worker_process_init

from webapp.service import worker
from webapp.service.supervise import dies_with_parent

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")

app = Celery("trimtab")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
app.steps["worker"].update((worker.Pulse, worker.MemoryLimit))

_worker_pid = 0


def _remember_worker(**_: Any) -> None:
    global _worker_pid
    _worker_pid = os.getpid()


def _die_with_worker(**_: Any) -> None:
    """Without this, a pool process whose worker was killed would wait for its next task forever."""
    dies_with_parent(signal.SIGKILL, _worker_pid)()
    worker.be_first_victim()


worker_init.connect(_remember_worker, weak=False)
worker_process_init.connect(_die_with_worker, weak=False)
