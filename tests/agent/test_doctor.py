"""What `trimtab doctor` says of this machine, and that its payload is what really goes out."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.agent.conftest import TOKEN
from tests.agent.service import Reply


def test_the_doctor_names_what_is_missing_what_that_costs_and_how_to_mend_it(trimtab, environment):
    done = trimtab(environment, "doctor")
    assert done.returncode == 0
    checks = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    names = ["service", "spool", "price", "cpu, memory", "pressure", "disks", "network"]
    names += ["processes", "gpus", "hook"]
    assert [line[9:23].strip() for line in checks] == names
    details = done.stdout.splitlines()
    for number, line in enumerate(details):
        if line.startswith(("missing", "partly", "WRONG")):
            assert "without it: " in details[number + 1]
    has_pressure = Path("/proc/pressure/cpu").exists()
    assert ("ok       pressure" in done.stdout) == has_pressure


def test_a_working_service_is_fine_and_keeps_nothing(trimtab, online, service):
    service.answer = lambda r: Reply(status=400)
    done = trimtab(online, "doctor", "--instance-type", "g5.xlarge")
    assert f"ok       service        {service.url} takes this token" in done.stdout
    assert "ok       price          g5.xlarge" in done.stdout
    assert [r.body for r in service.requests] == [b""]


@pytest.mark.parametrize("status", [401, 404, 502])
def test_a_service_that_does_not_work_is_an_error(trimtab, online, service, status):
    service.answer = lambda r: Reply(status=status)
    done = trimtab(online, "doctor")
    assert done.returncode == 1
    assert "WRONG    service" in done.stdout
    assert TOKEN not in done.stdout


def test_the_payload_is_what_would_be_sent_and_nothing_is(trimtab, online, service):
    # Shares of a time take two looks: the run must last until the second.
    script = "import sys, time; print('secret' in sys.argv); time.sleep(1.5)"
    command = [sys.executable, "-c", script, "--api-key", "hunter2", "https://me:pw@host/x"]
    done = trimtab(online, "doctor", "--payload", "--job", "j", "--", *command)
    assert service.requests == []
    texts = done.stdout.split("# PUT")[1:]
    declaration, segment = (json.loads(text.partition("\n")[2]) for text in texts)
    trimtab(online, "run", "--job", "j", "--", *command)
    sent = service.declarations[0]
    assert declaration["command"] == sent.command
    assert "hunter2" not in done.stdout
    assert "me:pw" not in done.stdout
    assert declaration["node"]["machine_id"] == sent.node.machine_id
    machine = {name for name in segment["blocks"][0]["columns"] if name.startswith("host.")}
    assert machine
    assert machine <= set(service.segments[0].blocks[0].columns)
