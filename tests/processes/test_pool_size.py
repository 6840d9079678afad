"""A real worker has one process while little is to do, and more while tasks wait."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from tests.processes.growing import app
from tests.running_service import CHECKOUT, wait_until
from webapp.service import private_redis

pytestmark = pytest.mark.processes


def test_the_pool_grows_while_tasks_wait_and_shrinks_when_it_is_quiet(tmp_path):
    server = private_redis.find_server()
    assert server is not None
    broker = private_redis.url(tmp_path).replace("unix://", "redis+socket://")
    app.conf.broker_url = broker
    command = [sys.executable, "-m", "celery", "-A", "tests.processes.growing", "worker"]
    redis = subprocess.Popen(private_redis.command(server, tmp_path), stdout=subprocess.DEVNULL)
    worker = psutil.Popen(
        [*command, "--pool=prefork", "--autoscale=2,1", "--without-gossip", "--without-mingle"],
        cwd=CHECKOUT,
        env=os.environ | {"BROKER": broker},
        stdout=subprocess.DEVNULL,
        stderr=(tmp_path / "log").open("wb"),
    )
    done = tmp_path / "done"

    def finished() -> list[str]:
        return done.read_text().split() if done.exists() else []

    try:
        for _ in range(5):
            app.send_task("rest", [0.05, str(done)])
        wait_until(lambda: len(finished()) == 5, 60, "five short tasks")
        assert len(worker.children()) == 1
        for _ in range(2):
            app.send_task("rest", [6, str(done)])
        wait_until(lambda: len(worker.children()) == 2, 15, "a second process")
        began = time.monotonic()
        wait_until(lambda: len(finished()) == 7, 20, "both at once")
        assert time.monotonic() - began < 10
        assert len(set(finished())) == 2
        wait_until(lambda: len(worker.children()) == 1, 20, "one process again")
        app.send_task("rest", [0, str(done)])
        wait_until(lambda: len(finished()) == 8, 10, "it still works")
    finally:
        worker.kill()
        redis.terminate()
        worker.wait(20)
        redis.wait(20)
