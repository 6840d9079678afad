"""A real worker: a task that takes too much memory dies alone; signs of life tell the truth."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from celery import Celery

from tests.running_service import CHECKOUT, manage, wait_until
from webapp.service import private_redis

pytestmark = [pytest.mark.processes, pytest.mark.long]
MOST_MEGABYTES = 300
PATIENCE_SECONDS = 60

ROWS = """
from webapp.accounts.models import Workspace
from webapp.rulebook.models import Rejudging
for name in ("Hungry", "Long"):
    Rejudging.objects.create(workspace=Workspace.objects.create(name=name), wanted=1)
"""
ROW = """
SELECT r.kills, r.done, r.lease IS NOT NULL FROM rulebook_rejudging r
JOIN accounts_workspace w ON w.id = r.workspace_id WHERE w.name = ?
"""


@dataclass
class Worker:
    process: psutil.Popen
    data_dir: Path
    pulse: int
    broker: Celery

    def sweep(self) -> None:
        self.broker.send_task("background.sweep", queue="schedule")

    def row(self, name: str) -> tuple[int, int, bool]:
        """Kills, what is done, and whether somebody has it."""
        database = self.data_dir / "trimtab.sqlite3"
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=20) as connection:
            kills, done, is_held = connection.execute(ROW, [name]).fetchone()
        return kills, done, bool(is_held)

    def gives_signs(self, seconds: float) -> bool:
        self._forget_signs()
        time.sleep(seconds)
        return self._forget_signs()

    def _forget_signs(self) -> bool:
        try:
            return bool(os.read(self.pulse, 65_536))
        except BlockingIOError:
            return False


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    data_dir = tmp_path_factory.mktemp("worker")
    for words in (("migrate", "--no-input"), ("shell", "-c", ROWS)):
        prepared = manage(data_dir, *words)
        assert prepared.wait(120) == 0, prepared.stdout.read() if prepared.stdout else ""
    server = private_redis.find_server()
    assert server is not None
    redis = subprocess.Popen(private_redis.command(server, data_dir), stdout=subprocess.DEVNULL)
    pulse, write_end = os.pipe()
    os.set_blocking(pulse, False)
    variables = {
        "REDIS_URL": private_redis.url(data_dir),
        "TRIMTAB_DATA_DIR": str(data_dir),
        "TRIMTAB_TASK_MEMORY_MB": str(MOST_MEGABYTES),
        "TRIMTAB_PULSE": str(write_end),
        "DJANGO_SETTINGS_MODULE": "webapp.settings",
        "BLOCK_FILE": str(data_dir / "block"),
    }
    command = [sys.executable, "-m", "celery", "-A", "tests.processes.hungry", "worker"]
    process = psutil.Popen(
        [*command, "--pool=prefork", "--concurrency=2", "--loglevel=INFO"],
        cwd=CHECKOUT,
        env=os.environ | variables,
        pass_fds=[write_end],
        stderr=(data_dir / "worker.log").open("wb"),
        stdout=subprocess.DEVNULL,
    )
    os.close(write_end)
    broker = Celery(broker=private_redis.url(data_dir).replace("unix://", "redis+socket://"))
    broker.conf.broker_transport_options = {"global_keyprefix": "trimtab:"}
    yield Worker(process, data_dir, pulse, broker)
    (data_dir / "block").unlink(missing_ok=True)
    process.kill()
    redis.terminate()
    process.wait(20)
    redis.wait(20)


def test_a_task_that_takes_too_much_memory_dies_alone(worker):
    worker.sweep()
    wait_until(lambda: worker.row("Long")[2], PATIENCE_SECONDS, "the long work begins")
    wait_until(lambda: "too much memory" in _log(worker), PATIENCE_SECONDS, "the kill")
    wait_until(lambda: worker.row("Long")[1] == 1, PATIENCE_SECONDS, "the long work is done")
    assert worker.row("Long")[0] == 0

    def is_counted() -> bool:
        worker.sweep()
        time.sleep(1)
        return worker.row("Hungry")[0] >= 1

    wait_until(is_counted, PATIENCE_SECONDS, "the next claim counts the death")
    assert worker.process.is_running()
    assert all(_megabytes(child) < 2 * MOST_MEGABYTES for child in worker.process.children())


def test_signs_of_life_stop_when_the_main_loop_does(worker):
    wait_until(lambda: worker.gives_signs(3), PATIENCE_SECONDS, "signs")
    (worker.data_dir / "block").touch()
    wait_until(lambda: not worker.gives_signs(3), PATIENCE_SECONDS, "no more signs")
    (worker.data_dir / "block").unlink()
    wait_until(lambda: worker.gives_signs(3), PATIENCE_SECONDS, "signs again")


def test_signs_of_life_go_on_while_redis_is_away(worker):
    (redis,) = [
        each
        for each in psutil.process_iter(["cmdline"])
        if str(worker.data_dir) in " ".join(each.info["cmdline"] or [])
        and "redis" in " ".join(each.info["cmdline"] or [])
    ]
    redis.send_signal(signal.SIGKILL)
    time.sleep(5)
    for _ in range(3):
        assert worker.gives_signs(6)


def _log(worker: Worker) -> str:
    return (worker.data_dir / "worker.log").read_text(errors="replace")


def _megabytes(process: psutil.Process) -> float:
    return float(process.memory_info().rss / 1e6)
