"""A worker, `celery -A tests.processes.growing`, whose tasks only take time."""

from __future__ import annotations

import os
import time

from celery import Celery

from webapp.service import worker

QUIET_SECONDS = 3.0

worker.QUIET_SECONDS = QUIET_SECONDS
app = Celery("growing", broker=os.environ.get("BROKER"), fixups=[])
app.conf.update(
    worker_autoscaler="webapp.service.worker:PoolSize",
    worker_prefetch_multiplier=1,
    task_acks_late=True,
    task_ignore_result=True,
)


@app.task(name="rest")
def rest(seconds: float, done: str) -> None:
    time.sleep(seconds)
    with open(done, "a") as file:  # noqa: PTH123 - one line, from several processes
        file.write(f"{os.getpid()}\n")
