"""The tasks that beat sends by name exist in a worker."""

from __future__ import annotations

import subprocess
import sys

from django.conf import settings

from webapp.background import waking

PRINT_TASKS = """
from webapp.celery import app
app.loader.import_default_modules()
print(*app.tasks, sep="\\n")
"""


def test_a_worker_knows_every_task_of_the_schedule():
    # In a fresh process: in this one, other tests have imported modules that a worker may not.
    listed = subprocess.run(
        [sys.executable, "-c", PRINT_TASKS],
        cwd=settings.BASE_DIR,
        capture_output=True,
        text=True,
        check=True,
    )
    scheduled = {entry["task"] for entry in settings.CELERY_BEAT_SCHEDULE.values()}
    assert scheduled <= set(listed.stdout.split())
    assert waking.TASK in listed.stdout.split()
