"""A real PyTorch training is profiled, and a person saves the trace from the run's page."""

from __future__ import annotations

import gzip
import html
import json
import re
from uuid import uuid4

import pytest

from tests.agent.torch_python import NEEDS_TORCH, PYTHON
from tests.html import without_wrapping
from tests.processes.conftest import Machine
from tests.processes.person import Person
from tests.running_service import Service, wait_until

pytestmark = [*NEEDS_TORCH, pytest.mark.processes, pytest.mark.long]

TRAINING = """
import sys, time, torch
model = torch.nn.Linear(64, 32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
until = time.monotonic() + float(sys.argv[1])
for step in range(10_000):
    optimizer.zero_grad()
    model(torch.randn(16, 64)).square().mean().backward()
    optimizer.step()
    time.sleep(0.05)
    if step > 20 and time.monotonic() > until:
        break
"""
FILE = re.compile(r'href="([^"]+)" download>([^<]+)<')


@pytest.fixture(scope="module")
def person(service: Service) -> Person:
    return Person(service)


class Run:
    """A run of the training above, seen by a person."""

    def __init__(self, machine: Machine, person: Person) -> None:
        assert machine.service is not None
        self.machine, self.person = machine, person
        self.id = str(uuid4())
        self.page = f"{machine.service.url}/runs/{self.id}/"

    def begin(self, seconds: float, *options: str):  # type: ignore[no-untyped-def]
        training = (PYTHON, "-W", "ignore", "-c", TRAINING, str(seconds))
        return self.machine.trimtab("run", "--run", self.id, *options, "--", *training)

    def files(self) -> list[tuple[str, str]]:
        """Return address and name of each file on the page."""
        return FILE.findall(without_wrapping(self.person.page(self.page)))

    def saved_trace(self) -> tuple[str, int]:
        """Return the one file's name, and how many optimizer steps its trace shows."""
        wait_until(lambda: bool(self.files()), 30, "the trace on the page")
        ((path, name),) = self.files()
        assert self.machine.service is not None
        address = self.machine.service.url + html.unescape(path)
        answer = self.person.session.get(address, timeout=20)
        assert f'filename="{name}"' in answer.headers["Content-Disposition"]
        events = json.loads(gzip.decompress(answer.content))["traceEvents"]
        return name, sum(e.get("name", "").startswith("Optimizer.step") for e in events)


def test_steps_chosen_at_the_start_are_a_file_of_the_runs_page(machine, person):
    run = Run(machine, person)
    assert run.begin(1, "--profile-steps", "5:8").wait(60) == 0
    assert run.saved_trace() == ("rank0-step5.trace.json.gz", 3)


def test_the_pages_button_profiles_the_running_training(machine, person):
    run = Run(machine, person)
    with run.begin(35) as training:
        try:
            wait_until(lambda: "Profile 5 steps" in person.page(run.page), 30, "the button")
            person.press(run.page, f"/runs/{run.id}/profile/")
            assert "The agent receives the request with its next upload" in person.page(run.page)
            name, steps = run.saved_trace()
            assert training.poll() is None, "the trace is there while the training goes on"
        finally:
            assert training.wait(60) == 0
    assert name.startswith("rank0-step")
    assert steps == 5
