"""A worker, `celery -A tests.processes.slow`, that takes its time to judge a workspace again.

It writes to `SLOW_FOLDER` what it begins and what it has done, with its process id.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path

from webapp.celery import app

SECONDS, LEASE = 0.1, timedelta(seconds=3)

app.loader.import_default_modules()

from webapp.background import claims  # noqa: E402 - needs Django's apps
from webapp.rulebook import rejudging  # noqa: E402


def judge_again(workspace_id: int, **which: object) -> bool:
    held = claims.claim(rejudging.KIND, workspace_id, **which)
    if held is None:
        return False
    name = held.row.workspace.name.replace(" ", "-")
    _note("begun", name)
    time.sleep(SECONDS)
    if claims.finish_work(held):
        _note("done", name)
    return True


def _note(file: str, name: str) -> None:
    with (Path(os.environ["SLOW_FOLDER"]) / file).open("a") as lines:
        lines.write(f"{os.getpid()} {name}\n")


rejudging.rejudge_workspace = judge_again
object.__setattr__(rejudging.KIND.limits, "lease", LEASE)
