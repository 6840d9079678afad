"""Quotas of the real service, whose agents lose nothing by them."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import pytest
from trimtab.wire import encode_segment

from tests.processes.conftest import Machine
from tests.processes.test_nothing_is_lost import Stored
from tests.running_service import Service, manage, wait_until
from tests.service.uploads import FakeAgent

pytestmark = pytest.mark.processes


def _quota(service: Service, *limits: str) -> str:
    rows = Stored(service, "").query("SELECT uuid FROM accounts_workspace ORDER BY id LIMIT 1")
    command = manage(service.data_dir, "quota", rows[0][0], *limits, TRIMTAB_NO_VENV="1")
    output, _ = command.communicate(timeout=60)
    assert command.returncode == 0, output
    return output


def _status(machine: Machine) -> str:
    variables = {"TRIMTAB_STATE_DIR": str(machine.state / "spool")}
    command = [str(Path(sys.executable).parent / "trimtab"), "status"]
    return subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, check=True
    ).stdout


def test_an_agent_keeps_what_a_quota_refuses_and_sends_all_of_it_later(tmp_path):
    service = Service(tmp_path / "data").start()
    try:
        _quota(service, "upload_bytes=6K")
        machine = Machine(tmp_path / "machine", service)
        machine.state.mkdir()
        assert machine.run(25).wait(120) == 0
        spooled = machine.spooled()
        stored = Stored(service, machine.run_id)
        assert len(stored.rows()) < len(spooled)
        told = _status(machine)
        assert "429 Too Many Requests: The workspace may upload 6.0 KB in 24 hours" in told
        _quota(service, "upload_bytes=default")
        assert machine.sync().wait(60) == 0
        wait_until(lambda: len(stored.rows()) == len(spooled), 30, "all segments", stored.rows)
        assert stored.segments() == spooled
    finally:
        service.stop()


@pytest.mark.long
def test_two_web_processes_never_exceed_a_quota_together(tmp_path):
    bodies = [encode_segment(FakeAgent(None, "").segment(0)) for _ in range(60)]  # type: ignore[arg-type]
    limit = 20 * max(map(len, bodies))
    service = Service(tmp_path / "data").start(
        TRIMTAB_WEB_WORKERS="2", TRIMTAB_WORKSPACE_UPLOAD_BYTES_A_DAY=str(limit)
    )
    try:
        uploads = [FakeAgent(None, service.token) for _ in range(60)]  # type: ignore[arg-type]
        with ThreadPoolExecutor(12) as pool:
            answers = list(pool.map(lambda agent: _put(service, agent), uploads))
        assert {status for status, _ in answers} == {200, 429}
        taken = [size for status, size in answers if status == 200]
        assert limit - max(map(len, bodies)) * 1.1 <= sum(taken) <= limit
    finally:
        service.stop()


def _put(service: Service, agent: FakeAgent) -> tuple[int, int]:
    """Return status and size of one upload, on a connection of its own."""
    body = encode_segment(agent.segment(0))
    connection = HTTPConnection("127.0.0.1", service.port, timeout=60)
    address = f"/api/v1/runs/{agent.run_id}/segments/{agent.session_id}/0"
    headers = {"Authorization": f"Bearer {service.token}", "Content-Encoding": "gzip"}
    connection.request("PUT", address, body, headers)
    status = connection.getresponse().status
    connection.close()
    return status, len(body)
