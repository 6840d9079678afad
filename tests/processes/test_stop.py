"""A real training hangs: the service stops it with `--allow-stop`, and never without."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import requests

from tests.processes.conftest import Machine
from tests.processes.person import Person
from tests.running_service import Service, manage, wait_until

pytestmark = [pytest.mark.processes, pytest.mark.long]
THRESHOLD_SECONDS = 30
READER = """
from webapp.accounts.models import Token, Workspace
print("token", Token.make(Workspace.objects.get(), "reader", ["read"])[1])
"""


@pytest.fixture(scope="module")
def reader(service: Service) -> requests.Session:
    """Return a reader of the API. A hang counts after half a minute from here on."""
    Person(service).post(
        f"{service.url}/settings/rules/",
        preset="balanced",
        assignments=f"hung.idle_seconds={THRESHOLD_SECONDS}",
    )
    made = manage(service.data_dir, "shell", "-c", READER)
    output, _ = made.communicate(timeout=60)
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {output.split('token ')[1].split()[0]}"
    return session


@dataclass
class Training:
    """Works for ten seconds and hangs for `seconds`, on a machine of its own."""

    machine: Machine
    seconds: int
    options: tuple[str, ...] = ()
    run_id: str = field(default_factory=lambda: str(uuid4()))

    def start(self) -> subprocess.Popen[str]:
        self.machine.state.mkdir()
        command = (sys.executable, "-m", "tests.processes.hang", "10", str(self.seconds))
        return self.machine.trimtab("run", "--run", self.run_id, *self.options, "--", *command)

    def document(self, reader: requests.Session) -> dict[str, Any]:
        """Return the run as the API describes it."""
        assert self.machine.service is not None
        address = f"{self.machine.service.url}/api/v1/runs/{self.run_id}"
        return dict(reader.get(address, timeout=20).json())

    def findings(self, reader: requests.Session) -> list[str]:
        return [found["rule"] for found in self.document(reader).get("findings", ())]


@pytest.fixture
def trainings(service: Service, tmp_path: Path) -> list[Training]:
    """Return a training that may be stopped, and one that may not."""
    return [
        Training(Machine(tmp_path / "allows", service), 600, ("--job", "allows", "--allow-stop")),
        Training(Machine(tmp_path / "forbids", service), 70, ("--job", "forbids")),
    ]


def test_a_hung_run_is_stopped_where_it_allows_that_and_only_there(reader, trainings):
    allows, forbids = trainings
    with allows.start() as stopped, forbids.start() as going_on:
        try:
            assert stopped.wait(10 + THRESHOLD_SECONDS + 60) == 128 + signal.SIGTERM
            wait_until(lambda: "hung" in forbids.findings(reader), 60, "the finding")
            assert forbids.document(reader)["state"] == "running"
            assert going_on.wait(120) == 0
        finally:
            for process in (stopped, going_on):
                process.terminate()
    ended = [training.document(reader) for training in trainings]
    assert [run["state"] for run in ended] == ["stopped", "finished"]
    assert [run["stopped_by"] for run in ended] == ["hung", ""]
