"""A web server whose interpreter is held ends with the stack in its log; any other goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import requests

from tests.running_service import CHECKOUT, free_port, prepare, wait_until
from webapp.service import watchdog

pytestmark = pytest.mark.processes
ENDS_SECONDS = 60
"""The seconds to end in on a machine that is busy with other tests; what counts is the CPU time."""
CPU_SECONDS = 9
"""The CPU that a held process may use from the request on."""
STOPPED_SECONDS = 8


@dataclass
class WebServer:
    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def get(self, name: str) -> requests.Response:
        return requests.get(f"{self.url}/{name}/", timeout=120)

    def begin(self, name: str) -> None:
        """Send a request and don't wait for its answer."""

        def ask() -> None:
            with suppress(requests.RequestException):
                self.get(name)

        threading.Thread(target=ask, daemon=True).start()

    def cpu_seconds(self) -> float:
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def answers(self) -> bool:
        with suppress(requests.RequestException):
            return requests.get(f"{self.url}/healthz", timeout=5).ok
        return False


@contextmanager
def serving(folder: Path) -> Iterator[WebServer]:
    prepare(folder / "data")
    address, log = f"127.0.0.1:{free_port()}", folder / "web.log"
    variables = {
        "TRIMTAB_DATA_DIR": str(folder / "data"),
        "TRIMTAB_BASE_URL": f"http://{address}",
    }
    inherited = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.processes.holding", "--bind", address],
            cwd=CHECKOUT,
            env=inherited | variables,
            stdout=output,
            stderr=output,
        )
    web = WebServer(process, f"http://{address}", log)
    try:
        wait_until(web.answers, 120, "the web server", log.read_text)
        yield web
    finally:
        process.kill()
        process.wait(20)


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebServer]:
    """Yield a web server that ends."""
    with serving(tmp_path) as web:
        yield web


@pytest.fixture(scope="module")
def lasting_web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebServer]:
    with serving(tmp_path_factory.mktemp("web")) as web:
        yield web


def test_it_ends_with_a_stack_when_a_request_holds_the_interpreter(web):
    web.begin("backtrack_forever")
    used_before, used = web.cpu_seconds(), 0.0
    deadline = time.monotonic() + ENDS_SECONDS
    while web.process.poll() is None:
        with suppress(psutil.Error):
            used = web.cpu_seconds() - used_before
        assert time.monotonic() < deadline, "it goes on"
        time.sleep(0.05)
    assert used < CPU_SECONDS
    # It exits: signals with their default action don't end the first process of a container.
    assert web.process.returncode == watchdog.HELD
    log = web.log.read_text()
    assert "in backtrack_forever" in log
    assert "in main" in log, "the other threads, too"


@pytest.mark.long
def test_it_ends_with_a_stack_when_a_request_waits_and_holds_the_interpreter(web):
    web.begin("sleep_with_the_interpreter")
    assert web.process.wait(ENDS_SECONDS) == watchdog.HUNG
    assert "in sleep_with_the_interpreter" in web.log.read_text()


@pytest.mark.parametrize(
    "name",
    ["sleep_without_the_interpreter", "compute_without_the_interpreter", "loop_in_python"],
)
def test_it_leaves_long_requests_alone_that_do_not_hold_the_interpreter(lasting_web, name):
    """Several at a time, so that together they take more CPU time than is allowed to one."""
    others = [threading.Thread(target=lasting_web.get, args=(name,)) for _ in range(2)]
    for each in others:
        each.start()
    assert lasting_web.get(name).text == str(lasting_web.process.pid)
    for each in others:
        each.join()
    assert lasting_web.answers()


def test_it_goes_on_after_it_was_stopped_by_a_signal(lasting_web):
    lasting_web.process.send_signal(signal.SIGSTOP)
    time.sleep(STOPPED_SECONDS)
    lasting_web.process.send_signal(signal.SIGCONT)
    assert lasting_web.answers()
    assert lasting_web.process.poll() is None
