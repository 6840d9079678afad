"""The supervisor restarts what hangs, and leaves alone what works for long."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.running_service import CHECKOUT, Service, command_line, free_port, wait_until

pytestmark = pytest.mark.processes
SILENCE_SECONDS = 3
"""Longer than the supervisor looks whether a process can start at all."""
RESTARTED_SECONDS = 30
"""A promise for what hangs, of which 20 s are patience."""

WEB = """
import http.server, os, sys, time
os.write(int(os.environ["TRIMTAB_ANNOUNCEMENT"]), b"ready\\n")
class Handler(http.server.BaseHTTPRequestHandler):
    answered = 0
    def do_GET(self):
        Handler.answered += 1
        if Handler.answered > int(sys.argv[2]):
            time.sleep(1000)
        self.send_response(200)
        self.end_headers()
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
LIVES = """
import os, time
while True:
    os.write(int(os.environ["TRIMTAB_PULSE"]), b".")
    time.sleep(0.2)
"""
SLOW = """
import os, time
while time.process_time() < 2:
    pass
while True:
    os.write(int(os.environ["TRIMTAB_PULSE"]), b".")
    time.sleep(0.2)
"""
HANGS = """
import os, time
os.write(int(os.environ["TRIMTAB_PULSE"]), b".")
time.sleep(1000)
"""
HOLDS = """
import os, re, sys, time
from webapp.service import watchdog
watchdog.HELD_SECONDS = 0.5
watchdog.start()
while not os.path.exists(sys.argv[1]):
    time.sleep(0.1)
re.match("(a+)+$", "a" * 40 + "b")
"""


@dataclass
class Supervised:
    """Small processes under the real supervisor."""

    process: subprocess.Popen[str]
    logs: Path

    def events(self) -> list[dict[str, str]]:
        log = self.logs / "supervise.log"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def pid(self, script: str) -> int:
        for child in psutil.Process(self.process.pid).children():
            if script in command_line(child):
                return int(child.pid)
        return 0


def _child(name: str, script: str, *arguments: str, silence: float | None) -> dict[str, Any]:
    return {
        "name": name,
        "command": [sys.executable, "-c", script, *arguments],
        "stop_signal": signal.SIGTERM,
        "orphan_signal": signal.SIGKILL,
        "patience_seconds": 2,
        "silence_seconds": silence,
    }


@contextmanager
def supervising(logs: Path, answers: int, *children: dict[str, Any]) -> Iterator[Supervised]:
    """Yield the supervisor once all are ready."""
    with started(logs, answers, *children) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield Supervised(process, logs)


@contextmanager
def started(logs: Path, answers: int, *children: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """Start these children, and a web server that falls silent after so many answers."""
    port = free_port()
    local = {"host": "127.0.0.1", "port": port, "host_header": "127.0.0.1", "scheme": "http"}
    web = _child("web", WEB, str(port), str(answers), silence=None)
    plan = {
        "children": [*children, web],
        "healthz": local,
        "logs": str(logs),
    }
    read_end, write_end = os.pipe()
    os.write(write_end, json.dumps(plan).encode())
    os.close(write_end)
    process = subprocess.Popen(
        [sys.executable, "-m", "webapp.service.supervise", str(read_end)],
        cwd=CHECKOUT,
        pass_fds=[read_end],
        stdout=subprocess.PIPE,
        text=True,
    )
    os.close(read_end)
    yield process
    process.terminate()
    process.wait(20)


def test_a_silent_process_is_restarted_and_no_other(tmp_path):
    children = [
        _child("lives", LIVES, silence=SILENCE_SECONDS),
        _child("hangs", HANGS, silence=SILENCE_SECONDS),
    ]
    with supervising(tmp_path, 1000, *children) as supervised:
        lives, hangs = supervised.pid(LIVES), supervised.pid(HANGS)
        wait_until(lambda: supervised.pid(HANGS) not in (0, hangs), 20, "it starts again")
        # Again and again, each time after a longer pause.
        wait_until(lambda: len(supervised.events()) >= 2, 30, "it hangs again")
        events = supervised.events()[:2]
        assert {each["process"] for each in events} == {"hangs"}
        assert "no sign of life" in events[0]["event"]
        pauses = [float(each["event"].split()[-2]) for each in events]
        assert pauses == sorted(set(pauses))
        assert supervised.pid(LIVES) == lives


def test_a_start_may_take_long_as_long_as_it_advances(tmp_path):
    slow = _child("slow", SLOW, silence=SILENCE_SECONDS) | {"standstill_seconds": 1}
    with supervising(tmp_path, 1000, slow) as supervised:
        assert supervised.pid(SLOW)
        assert supervised.events() == []


def test_a_start_that_stands_still_is_told_and_given_up(tmp_path):
    stuck = _child("stuck", "import time; time.sleep(1000)", silence=SILENCE_SECONDS)
    with started(tmp_path, 1000, stuck | {"standstill_seconds": 1}) as process:
        output = process.communicate(timeout=60)[0]
    assert process.returncode == 1
    assert "stuck hangs (no progress for 1 s); killed, restarts in" in output
    assert "The stuck process fails to start." in output
    assert "ready" not in output


def test_it_restarts_a_process_at_once_whenever_its_watchdog_has_ended_it(tmp_path):
    may_hold = tmp_path / "may-hold"
    holds = _child("holds", HOLDS, str(may_hold), silence=None)
    with supervising(tmp_path, 1000, holds) as supervised:
        may_hold.touch()
        wait_until(lambda: len(supervised.events()) >= 4, 60, "it is held again and again")
        for each in supervised.events():
            assert each["event"] == (
                "ended by its watchdog: something held the interpreter; restarts in 0.2 s"
            )


@pytest.mark.long
def test_a_web_server_that_answers_nothing_more_is_restarted(tmp_path):
    with supervising(tmp_path, 5) as supervised:
        wait_until(lambda: supervised.events(), 120, "it is noticed")
        (event,) = supervised.events()
        assert event["process"] == "web"
        assert "/healthz is not answered" in event["event"]


@pytest.mark.long
def test_what_is_stopped_by_a_signal_is_restarted_in_time(tmp_path):
    service = Service(tmp_path).start()
    try:
        for name in ("web", "worker", "beat", "redis"):
            part = service.part(name)
            assert part is not None
            part.suspend()
            wait_until(lambda n=name, p=part: service.has_new(n, p.pid), RESTARTED_SECONDS, name)
            wait_until(service.answers, 30, "the service answers")
        log = (tmp_path / "logs" / "supervise.log").read_text().splitlines()
        assert len(log) == 4, "nothing else was restarted"
    finally:
        service.stop()


@pytest.mark.long
def test_a_stopped_supervisor_blames_nobody(tmp_path):
    service = Service(tmp_path).start()
    try:
        assert service.supervisor is not None
        parts = {name: service.part(name) for name in ("web", "worker", "beat", "redis")}
        service.supervisor.suspend()
        time.sleep(25)
        service.supervisor.resume()
        time.sleep(5)
        assert {name: service.part(name) for name in parts} == parts
    finally:
        service.stop()
