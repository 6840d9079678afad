"""PyTorch trainings whose processes or machines are killed, measured by real agents.

What they uploaded is played to the service; what was lost is counted by the script itself.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.test import Client

from tests.agent.service import DECLARATION, SEGMENT_PATH, Service
from tests.agent.torch_python import NEEDS_TORCH, PYTHON
from tests.running_service import kill_all
from tests.service.machines import analyse_what_is_due
from webapp.analysis.models import CheckpointFile
from webapp.analysis.tasks import evaluate
from webapp.runs.models import Run

pytestmark = [*NEEDS_TORCH, pytest.mark.django_db]

SCRIPT = """
import json, os, sys, time, torch
from torch import nn
torch.set_num_threads(1)
model = nn.Linear(64, 8)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
is_first, steps, done = os.environ.get("RANK", "0") == "0", int(os.environ["STEPS"]), 0
if os.path.exists("model.pt"):
    saved = torch.load("model.pt")
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    done = saved["done"]
with open("steps.jsonl", "a", buffering=1) as log:
    while done < steps:
        time.sleep(0.25)
        loss = model(torch.randn(4, 64)).sum()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        done += 1
        if is_first:
            log.write(json.dumps([os.getpid(), done]) + "\\n")
        if is_first and done % 4 == 0:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "done": done}
            torch.save(state, "new.pt"); os.replace("new.pt", "model.pt")
"""
KILLS = 3


@pytest.fixture
def taken() -> Iterator[Service]:
    service = Service()
    yield service
    service.close()


class Script:
    """The log that the script itself wrote: each step that it did, by process."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "steps.jsonl"

    def attempts(self) -> list[list[int]]:
        """Return the numbers of the steps of each process."""
        found: dict[int, list[int]] = {}
        for line in self._log.read_text().splitlines() if self._log.exists() else []:
            pid, number = json.loads(line)
            found.setdefault(pid, []).append(number)
        return list(found.values())

    def process(self) -> int:
        return int(json.loads(self._log.read_text().splitlines()[-1])[0])

    def lost(self) -> int:
        """Return how many steps a later process did again."""
        attempts = self.attempts()
        firsts = [numbers[0] for numbers in attempts]
        return sum(
            number >= min(firsts[place + 1 :], default=10**9)
            for place, numbers in enumerate(attempts)
            for number in numbers
        )


def started(
    folder: Path, service: Service, *, steps: int, **variables: str
) -> subprocess.Popen[bytes]:
    """Start the script under an agent."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("TRIMTAB", "SLURM"))}
    mine = {
        "TRIMTAB_STATE_DIR": str(folder / "state"),
        "TRIMTAB_METADATA": "off",
        "TRIMTAB_URL": service.url,
        "TRIMTAB_TOKEN": "tt_test-token",
        "STEPS": str(steps),
    }
    said = ["--job", "llm", "--instance-type", "c5.large", "--provider", "aws"]
    said += ["--region", "us-east-1", "--service", "ec2"]
    agent = [sys.executable, "-m", "trimtab.cli", "run", *said, "--"]
    return subprocess.Popen(
        [*agent, PYTHON, "-W", "ignore", "train.py"],
        cwd=folder,
        env=inherited | mine | variables,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


def train(folder: Path, service: Service, kill_after: int | None) -> None:
    """Train one run; its training is killed after so many steps."""
    running = started(folder, service, steps=36)
    script, before = Script(folder), len(Script(folder).attempts())
    while running.poll() is None and kill_after is not None:
        time.sleep(0.02)
        attempts = script.attempts()
        if len(attempts) > before and len(attempts[-1]) >= kill_after:
            time.sleep(0.05)  # the record of a step is in the ring
            os.kill(script.process(), signal.SIGKILL)
            kill_after = None
    assert running.wait(timeout=60) == (0 if kill_after is None and before == KILLS else 137)


def play(service: Service, token: str) -> list[Run]:
    """Upload what the agents sent, as if each request was sent now: all clocks are right."""
    client, runs = Client(), []
    for request in service.requests:
        path = "/" + request.path.split("/", 3)[3] if "://" in request.path else request.path
        if request.method != "PUT" or not (DECLARATION.match(path) or SEGMENT_PATH.match(path)):
            continue
        headers = {"X-Trimtab-Sent-At": str(time.time_ns()), "Content-Encoding": "gzip"}
        answer = client.put(
            path,
            request.body,
            content_type="application/vnd.trimtab.segment+json",
            headers=headers | {"Authorization": f"Bearer {token}"},
        )
        assert answer.status_code == 200, answer.content
        named = re.match(r".*/runs/([0-9a-f-]+)", path)
        if named and named[1] not in runs:
            runs.append(named[1])
    for run_id in runs:
        evaluate(run_id)
    analyse_what_is_due()
    return [Run.objects.get(pk=run_id) for run_id in runs]


def test_a_training_that_is_killed_three_times_loses_what_its_script_says(
    taken: Service, tmp_path: Path, token: str, told: Any
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    drawn = random.Random(18)
    for _ in range(KILLS):
        train(tmp_path, taken, kill_after=drawn.randint(5, 11))
    train(tmp_path, taken, kill_after=None)
    script = Script(tmp_path)
    assert len(script.attempts()) == KILLS + 1

    runs = play(taken, token)
    assert [run.state for run in runs] == [Run.FAILED] * KILLS + [Run.FINISHED]
    assert [run.continues_by for run in runs] == ["", *["checkpoint"] * KILLS]
    minutes, document = told(runs[0].pk)
    assert document["lost_steps"] == script.lost() > 0
    assert document["steps"] == 36
    assert minutes["lost"] > 0
    assert sum(run.work["steps"] for run in runs) == 36, "work leaves lost steps out"
    costs = [run.cost_usd for run in runs]
    assert Decimal(document["cost_usd"]) == sum(cost for cost in costs if cost is not None)
    assert all(costs)
    assert not document["is_provisional"]
    assert CheckpointFile.objects.filter(is_loaded=True).count() == KILLS


def vanish(running: subprocess.Popen[bytes]) -> None:
    """Let the machine be gone: its agent and all that it started."""
    kill_all([*psutil.Process(running.pid).children(recursive=True), running])
    running.wait(timeout=30)


@pytest.mark.long
def test_a_node_that_vanishes_is_replaced_and_only_its_steps_are_lost(
    taken: Service, tmp_path: Path, token: str, told: Any
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    run_id = str(uuid.uuid4())

    def node(name: str, rank: int, attempt: int) -> subprocess.Popen[bytes]:
        # Each machine has its own folder of temporary files, in which its agents find each other.
        own = tmp_path / f"{name}-files"
        own.mkdir(exist_ok=True)
        mine = {"TRIMTAB_STATE_DIR": str(tmp_path / name), "TRIMTAB_MACHINE_ID": name}
        mine["TMPDIR"] = str(own)
        where = {"TRIMTAB_RUN": run_id, "TRIMTAB_ATTEMPT": str(attempt), "RANK": str(rank)}
        return started(tmp_path, taken, steps=80, **mine, **where)

    first, lost = node("m-1", 0, 0), node("m-2", 1, 0)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        is_seen = any(s.machine_id == "m-2" and s.steps for s in taken.segments)
        # Neither just saved nor about to be
        if is_seen and len(Script(tmp_path).attempts()[0]) % 4 == 2:
            break
        time.sleep(0.05)
    vanish(lost)
    os.kill(Script(tmp_path).process(), signal.SIGKILL)
    assert first.wait(timeout=60) == 137
    again, instead = node("m-1", 0, 1), node("m-3", 1, 1)
    assert [again.wait(timeout=60), instead.wait(timeout=60)] == [0, 0]
    script = Script(tmp_path)
    assert len(script.attempts()) == 2

    (run,) = play(taken, token)

    assert run.state == Run.FINISHED
    machines = run.attempts.values_list("number", "nodes__machine_id").order_by("number")
    assert sorted(machines) == [(0, "m-1"), (0, "m-2"), (1, "m-1"), (1, "m-3")]
    minutes, document = told(run.pk)
    assert document["lost_steps"] == script.lost() > 0
    assert document["steps"] == run.work["steps"] == 80
    assert minutes["lost"] > 0
    assert Decimal(document["cost_usd"]) == run.cost_usd
    parts = run.cost_parts.values_list("node__machine_id", "usd")
    assert sum(usd for _, usd in parts) == run.cost_usd, "no node is left out or paid twice"
    assert {machine for machine, _ in parts} == {"m-1", "m-2", "m-3"}
