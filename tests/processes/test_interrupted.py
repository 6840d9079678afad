"""A training that is killed three times and continued each time, by real processes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
import urllib.request
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.agent.torch_python import NEEDS_TORCH, PYTHON
from tests.processes.conftest import Machine
from tests.running_service import CHECKOUT, manage, wait_until

pytestmark = [*NEEDS_TORCH, pytest.mark.processes, pytest.mark.long]

SCRIPT = CHECKOUT / "tests" / "processes" / "interrupted.py"
STEPS, KILLS, SEED = 45, 3, 20261123
TOKEN = """
from webapp.accounts.models import Token, Workspace
print("token", Token.make(Workspace.objects.get(), "reader", [Token.READ])[1])
"""


def start(machine: Machine, place: Path) -> subprocess.Popen[str]:
    declared = ["--provider", "aws", "--service", "ec2", "--region", "us-east-1"]
    declared += ["--instance-type", "c5.large", "--job", "killed", "--training", "thrice"]
    (place / "pid").unlink(missing_ok=True)
    words = ["env", f"--chdir={place}", PYTHON, "-W", "ignore", str(SCRIPT), str(STEPS)]
    return machine.trimtab("run", *declared, "--", *words)


def made(place: Path) -> list[int]:
    log = place / "steps"
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def lost(steps: list[int]) -> int:
    """Return the number of steps whose number comes again later."""
    return sum(number in steps[at + 1 :] for at, number in enumerate(steps))


def training(machine: Machine, token: str) -> dict[str, Any]:
    assert machine.service is not None
    address = f"{machine.service.url}/api/v1/training?training=thrice"
    request = urllib.request.Request(address, headers={"Authorization": f"Bearer {token}"})  # noqa: S310
    with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310
        document: dict[str, Any] = json.load(answer)
        return document


def test_lost_steps_are_those_that_the_script_did_again(machine: Machine, tmp_path: Path) -> None:
    assert machine.service is not None
    chance = random.Random(SEED)
    for _ in range(KILLS):
        before = len(made(tmp_path))
        agent = start(machine, tmp_path)
        wanted = before + chance.randint(3, 11)
        wait_until(lambda n=wanted: len(made(tmp_path)) >= n, 120, f"{wanted} steps")
        time.sleep(chance.uniform(0.02, 0.12))  # in the middle of the next step
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
        assert agent.wait(60) == 128 + signal.SIGKILL
    assert start(machine, tmp_path).wait(180) == 0
    steps = made(tmp_path)
    assert steps[-1] == STEPS
    assert lost(steps) > 0

    asked = manage(machine.service.data_dir, "shell", "-c", TOKEN).communicate()[0]
    token = asked.split("token ")[1].split()[0]
    wait_until(lambda: not training(machine, token)["is_provisional"], 120, "it is over")
    document = training(machine, token)
    assert (document["steps"], document["lost_steps"]) == (STEPS, lost(steps))
    assert not document["lost_is_unknown"]
    assert len(document["attempts"]) == KILLS + 1
    cost = Decimal(document["cost_usd"])
    assert sum(Decimal(line["usd"]) for line in document["ledger"]) == cost > 0
    assert sum(Decimal(each["usd"]) for each in document["attempts"]) == cost
