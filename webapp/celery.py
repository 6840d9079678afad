"""The Celery application. Its settings are in `webapp.settings`, prefixed `CELERY_`."""

import gc
import os
import signal
from typing import Any

from celery import Celery
from celery.signals import (
    import_modules,
    task_postrun,
    task_prerun,
    worker_before_create_process,
    worker_init,
    worker_process_init,
)
from django.db import close_old_connections

from webapp.service import late, worker
from webapp.service.child import dies_with_parent

late.load_when_used(*late.FOR_MEASUREMENTS)
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")


def _load_undisturbed(**_: Any) -> None:
    """Turn garbage collection off while a worker loads: what it loads stays, and to search it
    repeatedly is a sixth of its start.
    """
    gc.disable()


def _have_loaded(**_: Any) -> None:
    gc.enable()


import_modules.connect(_load_undisturbed, weak=False)  # runs before Celery's own, which load Django

app = Celery("trimtab")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
import_modules.connect(_have_loaded, weak=False)  # runs after them
app.steps["worker"].update((worker.Pulse, worker.MemoryLimit))

_worker_pid = _forks = 0


def _close_old_connections(**_: Any) -> None:
    """Close the connections to the database that are broken or older than `CONN_MAX_AGE`, and keep
    the others, as requests do: opening one takes as long as a small task. With
    `CELERY_DB_REUSE_MAX`, Celery closes none itself, not even those that are broken.
    """
    close_old_connections()


def _remember_worker(**_: Any) -> None:
    global _worker_pid
    _worker_pid = os.getpid()
    # The name that PostgreSQL shows for its connections.
    os.environ.setdefault("PGAPPNAME", "trimtab worker")


def _share_memory(**_: Any) -> None:
    """Prepare each fork of a pool process, which shares what its worker has loaded.

    The first one finds no pandas: an idle worker has one process, and that may never measure. The
    collector would write to every object, and so copy it; what is frozen it leaves alone.
    """
    global _forks
    if _forks:
        late.load(*late.FOR_MEASUREMENTS)
    _forks += 1
    gc.collect()
    gc.freeze()


def _die_with_worker(**_: Any) -> None:
    """End a pool process with its worker. Otherwise, if the worker was killed, it would wait for
    its next task forever.
    """
    dies_with_parent(signal.SIGKILL, _worker_pid)()
    worker.be_first_victim()


worker_init.connect(_remember_worker, weak=False)
worker_before_create_process.connect(_share_memory, weak=False)
worker_process_init.connect(_die_with_worker, weak=False)
task_prerun.connect(_close_old_connections, weak=False)
task_postrun.connect(_close_old_connections, weak=False)
