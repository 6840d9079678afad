"""Savings of uploaded runs, as the API and the pages tell them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from django.test import Client
from trimtab.wire import Block, Event, Gpu, NodeFacts, StepBlock

from tests.html import read_page
from tests.service.uploads import FakeAgent
from webapp.accounts.models import Membership, Token, User, Workspace
from webapp.advice.models import RealisedSaving
from webapp.analysis.tasks import evaluate
from webapp.runs.models import Job, Run
from webapp.spend.savings import savings_page

pytestmark = pytest.mark.django_db

LARGE, MEDIUM, SMALL = "g5.12xlarge", "g5.4xlarge", "g5.2xlarge"
MACHINES = {LARGE: (48, 192, 4), MEDIUM: (16, 64, 1), SMALL: (8, 32, 1)}
"""vCPUs, GiB and GPUs."""
TICK_MS, STEP_MS = 10_000, 1000
DAY_NS = 86_400 * 10**9


class TrainingJob:
    """Uploads one run a day of a training that keeps one GPU busy, whatever it runs on."""

    def __init__(self, agent: FakeAgent, seconds: int) -> None:
        self.agent, self.seconds = agent, seconds
        self.first_ns, self.days = time.time_ns() - 40 * DAY_NS, 0

    def run_on(self, *machines: str) -> list[Run]:
        return [self._upload(machine) for machine in machines]

    def _upload(self, machine: str) -> Run:
        agent = self.agent
        agent.run_id, agent.session_id, agent.machine_id = uuid4(), uuid4(), f"m-{self.days}"
        agent.started_at_ns, agent.instance_type = self.first_ns + self.days * DAY_NS, machine
        self.days += 1
        agent.declare(node=self._node(machine), command=["python", "train.py"])
        segment = agent.segment(
            0,
            duration_ms=self.seconds * 1000,
            resolution_ms=TICK_MS,
            blocks=[self._block(MACHINES[machine][2])],
            steps=[self._steps()],
        )
        end = {"state": "finished", "exit_code": 0, "final_seq": 0}
        segment.events.append(Event(self.seconds * 1000, "session_end", end))
        assert agent.put(segment).status_code == 200
        evaluate(str(agent.run_id))
        return Run.objects.get(pk=agent.run_id)

    def _node(self, machine: str) -> NodeFacts:
        vcpus, gib, gpus = MACHINES[machine]
        return NodeFacts(
            machine_id=self.agent.machine_id,
            provider="aws",
            service="ec2",
            region="us-east-1",
            instance_type=machine,
            purchase_option="on_demand",
            vcpus=vcpus,
            effective_cpus=float(vcpus),
            memory_bytes=gib * 2**30,
            effective_memory_bytes=gib * 2**30,
            gpus=[Gpu("NVIDIA A10G", 24 * 10**9)] * gpus,
        )

    def _block(self, gpus: int) -> Block:
        ticks = list(range(0, self.seconds * 1000, TICK_MS))
        columns: dict[str, list[Any]] = {
            "tree.rss_bytes": [6 * 2**30] * len(ticks),
            "tree.cpu_cores": [2.0] * len(ticks),
            "host.cpu_busy_pct": [5.0] * len(ticks),
            "host.memory_used_bytes": [8 * 2**30] * len(ticks),
        }
        for number in range(gpus):
            is_used = number == 0
            columns[f"gpu{number}.busy_pct"] = [95.0 if is_used else 0.0] * len(ticks)
            used = 5 * 2**30 if is_used else 0
            columns[f"gpu{number}.tree_memory_used_bytes"] = [used] * len(ticks)
        return Block(ticks, columns)

    def _steps(self) -> StepBlock:
        count = (self.seconds - 60) * 1000 // STEP_MS
        starts = [60_000_000 + n * STEP_MS * 1000 for n in range(count)]
        lengths = [STEP_MS * 1000] * count
        return StepBlock(0, "train", starts, lengths, [0] * count, [64] * count)


@pytest.fixture
def read(workspace: Workspace, client: Client) -> Any:
    _, plain = Token.make(workspace, "script", [Token.READ])

    def recommendations() -> list[dict[str, Any]]:
        address = f"/api/v1/jobs/{Job.objects.get().uuid}/recommendations"
        answer = client.get(address, headers={"Authorization": f"Bearer {plain}"})
        assert answer.status_code == 200, answer.content
        found: list[dict[str, Any]] = answer.json()["recommendations"]
        return found

    return recommendations


@pytest.fixture
def person(workspace: Workspace) -> Client:
    user = User.objects.create_user("ada@example.org")
    Membership.objects.create(workspace=workspace, user=user, role=Membership.OWNER)
    browser = Client()
    browser.force_login(user)
    return browser


def saved_usd(recommendations: Sequence[dict[str, Any]]) -> Decimal:
    return sum(
        (Decimal(each["usd"]) for row in recommendations for each in row["savings"]), Decimal(0)
    )


def numbers(runs: Sequence[dict[str, Any]]) -> list[int]:
    return sorted(run["number"] for run in runs)


def test_a_job_that_alternates_saves_each_dollar_once(
    agent: FakeAgent, read: Any, person: Client, workspace: Workspace
) -> None:
    job = TrainingJob(agent, seconds=3079)
    job.run_on(*[LARGE] * 8)
    assert "g5." in " ".join(row["title"] for row in read())
    runs = job.run_on(*[SMALL, LARGE] * 5)

    told = read()
    machine = [row for row in told if row["kind"] == "change_instance_type"]
    followed = [row for row in machine if row["savings"]]
    assert float(saved_usd(told)) == pytest.approx(19.07, rel=0.02)
    assert len(followed) == 1, [row["title"] for row in machine]
    assert numbers([each["run"] for each in followed[0]["savings"]]) == [9, 11, 13, 15, 17]
    assert numbers(followed[0]["not_followed_by"]) == [10, 12, 14, 16, 18]
    assert followed[0]["state"] == "verified"
    assert followed[0]["reopened_by"]["number"] == 18
    assert sum(each.usd for each in RealisedSaving.objects.all()) == saved_usd(told)
    assert savings_page(workspace, runs[-1].began_at).proven.usd == saved_usd(told)
    assert f"${saved_usd(told):.2f}" in read_page(person.get("/savings/"))
    page = read_page(person.get(f"/runs/{runs[-1].pk}/"))
    assert "not followed by the newest run" in page
    assert "Not followed by this run: 1" in page


def test_going_back_keeps_what_was_saved_and_fails_nothing(agent: FakeAgent, read: Any) -> None:
    job = TrainingJob(agent, seconds=1580)
    job.run_on(*[LARGE] * 4, *[MEDIUM] * 3, *[LARGE] * 2)
    told = read()
    assert float(saved_usd(told)) == pytest.approx(5.33, rel=0.02)
    assert not [row for row in told if row["state"] == "failed"]
