"""A worker, `celery -A tests.processes.hungry`, whose work is made to take memory or time.

What is judged again for the workspace "Hungry" takes ever more memory, for "Long" five seconds of
computing. Once `BLOCK_FILE` exists, the main loop stands still.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from celery import bootsteps

from webapp.celery import app

MEGABYTES_A_PIECE, LONG_SECONDS = 10, 5
LEASE = timedelta(seconds=3)

app.loader.import_default_modules()

from webapp.background import claims  # noqa: E402 - needs Django's apps
from webapp.rulebook import rejudging  # noqa: E402


def judge_again(workspace_id: int, **which: object) -> bool:
    held = claims.claim(rejudging.KIND, workspace_id, **which)
    if held is None:
        return False
    kept = []
    while held.row.workspace.name == "Hungry":
        kept.append(bytearray(os.urandom(1000) * 1000 * MEGABYTES_A_PIECE))
        time.sleep(0.02)
    until = time.monotonic() + LONG_SECONDS
    while time.monotonic() < until:
        pass
    return claims.finish_work(held)


class Block(bootsteps.StartStopStep):
    requires = ("celery.worker.components:Timer",)

    def start(self, worker: Any) -> None:
        worker.timer.call_repeatedly(0.2, self._look)

    def _look(self) -> None:
        while Path(os.environ["BLOCK_FILE"]).exists():
            time.sleep(0.1)


rejudging.rejudge_workspace = judge_again
object.__setattr__(rejudging.KIND.limits, "lease", LEASE)
app.steps["worker"].add(Block)
