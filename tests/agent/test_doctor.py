"""Tests of what `trimtab doctor` says of this machine, and that its payload is what really goes
out.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.agent.conftest import TOKEN
from tests.agent.metadata import ec2
from tests.agent.service import Reply


def test_the_doctor_names_what_is_missing_what_that_costs_and_how_to_fix_it(trimtab, environment):
    done = trimtab(environment, "doctor")
    assert done.returncode == 0
    checks = [line for line in done.stdout.splitlines() if not line.startswith(" ")]
    names = ["service", "spool", "price", "cpu, memory", "container", "pressure", "disks"]
    names += ["network mounts", "network", "processes", "gpus", "hook"]
    assert [line[9:23].strip() for line in checks] == names
    details = done.stdout.splitlines()
    for number, line in enumerate(details):
        if line.startswith(("missing", "partly", "WRONG")):
            assert "not available: " in details[number + 1]
    has_pressure = Path("/proc/pressure/cpu").exists()
    assert ("ok       pressure" in done.stdout) == has_pressure


def test_a_working_service_is_fine_and_keeps_nothing(trimtab, online, service):
    service.answer = lambda r: Reply(status=400)
    done = trimtab(online, "doctor", "--instance-type", "g5.xlarge")
    assert f"ok       service        {service.url} accepts the token" in done.stdout
    assert "ok       price          g5.xlarge" in done.stdout
    assert [r.body for r in service.requests] == [b""]


def test_the_metadata_service_names_the_machine(trimtab, environment, stub):
    metadata = {"TRIMTAB_METADATA": "on", "TRIMTAB_METADATA_URL": stub(ec2()).url}
    done = trimtab(environment | metadata, "doctor")
    assert "ok       price          g5.2xlarge, aws ec2, us-east-1, spot" in done.stdout


def test_an_unanswered_metadata_service_is_named_with_what_it_costs(trimtab, environment, stub):
    metadata = {"TRIMTAB_METADATA": "on", "TRIMTAB_METADATA_URL": stub(lambda *asked: None).url}
    done = trimtab(environment | metadata, "doctor")
    assert "missing  price          no metadata service answers" in done.stdout
    assert "not available: the run's cost" in done.stdout
    done = trimtab(environment, "doctor")
    assert "missing  price          switched off by TRIMTAB_METADATA" in done.stdout


def test_gpus_are_counted_with_those_of_the_run(trimtab, environment, driver):
    driver.says("gpus 4")
    done = trimtab(environment | driver.environment | {"CUDA_VISIBLE_DEVICES": "0,3"}, "doctor")
    assert "ok       gpus           4 by NVML, 2 of them for the run: NVIDIA H100" in done.stdout


def test_series_that_an_older_gpu_lacks_are_listed(trimtab, environment, driver):
    driver.says("gpus 1", "gpu*.no.gpm 1", "gpu*.no.fields 1")
    done = trimtab(environment | driver.environment, "doctor")
    lines = done.stdout.splitlines()
    at = next(n for n, line in enumerate(lines) if line.startswith("partly   gpus"))
    assert "not available: how much of the GPU its kernels use" in lines[at + 1]
    assert "PCIe traffic" in lines[at + 1]


@pytest.mark.parametrize(
    ("lines", "seen", "fix"),
    [
        (["init 9"], "the driver reports an error: driver not loaded", "load the driver"),
        (
            ["init 4"],
            "the driver reports an error: no permission",
            "let this user open /dev/nvidiactl",
        ),
        (["init 18"], "the driver reports an error: lib rm version mismatch", "was updated"),
        (["gpus 0"], "there is a driver, but no GPU", "--gpus all"),
    ],
)
def test_a_driver_without_gpus_is_missing_and_the_doctor_says_why(
    trimtab, environment, driver, lines, seen, fix
):
    driver.says(*lines)
    done = trimtab(environment | driver.environment, "doctor")
    assert done.returncode == 0
    said = done.stdout.splitlines()
    at = next(n for n, line in enumerate(said) if line[9:23].strip() == "gpus")
    assert said[at] == f"missing  gpus           {seen}"
    assert said[at + 1].strip().startswith("not available: GPU utilisation, memory")
    assert fix in said[at + 2]


def test_a_driver_that_hangs_does_not_hang_the_doctor(trimtab, environment, driver):
    driver.says("gpus 2", "gpu1.hang 1")
    done = trimtab(environment | driver.environment, "doctor")
    assert "partly   gpus           2 by NVML, 2 of them for the run" in done.stdout
    assert "GPU 1: no_answer" in done.stdout


@pytest.mark.parametrize("status", [401, 404, 502])
def test_a_service_that_does_not_work_is_an_error(trimtab, online, service, status):
    service.answer = lambda r: Reply(status=status)
    done = trimtab(online, "doctor")
    assert done.returncode == 1
    assert "WRONG    service" in done.stdout
    assert TOKEN not in done.stdout


def test_the_payload_is_what_would_be_sent_and_nothing_is(trimtab, online, service, driver):
    driver.says("gpus 1")
    online |= driver.environment
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
    assert declaration["node"]["gpus"][0]["model"] == "NVIDIA H100 80GB HBM3"
    shown = ("host.", "gpu0.")
    machine = {name for name in segment["blocks"][0]["columns"] if name.startswith(shown)}
    assert {"host.memory_used_bytes", "gpu0.busy_pct"} <= machine
    assert machine <= set(service.segments[0].blocks[0].columns)
