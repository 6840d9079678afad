"""`GET /api/v1/jobs/{job}/runs`: a job's runs with their verdicts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from advisor.run_summary import SuccessiveVerdict
from tests.web import factories
from webapp.accounts.models import Token
from webapp.runs.models import Job, Run

VERDICT = SuccessiveVerdict(
    status="confirmed", rung="change", direction="worse", since=7, unit="samples", baseline_runs=6,
    change=0.2, expected_usd=1.0, low_usd=0.9, high_usd=1.1, detects=0.05,
    sentence="Confirmed regression.", causes=["train took longer"],
)  # fmt: skip


@pytest.fixture
def job(owner) -> Job:
    return factories.job(owner.workspace)


def ask(job: Job, scope: str = "read", workspace: Any = None, **query: Any) -> Any:
    token = Token.make(workspace or job.workspace, "script", [scope])[1]
    headers = {"Authorization": f"Bearer {token}"}
    return Client().get(f"/api/v1/jobs/{job.uuid}/runs", query, headers=headers)


def complete(job: Job, **more: Any) -> Run:
    run = factories.run(job, **more)
    factories.analysis(run)
    return run


def numbers(answer: Any) -> list[int]:
    return [run["number"] for run in answer.json()["runs"]]


def test_a_run_has_its_cost_work_state_completeness_and_verdict(job):
    complete(job, cost="1.5", summary=factories.summary(verdict=VERDICT))
    factories.run(job, cost=None, state=Run.RUNNING)
    running, finished = ask(job).json()["runs"]
    assert finished["cost_usd"] == "1.500000000"
    assert finished["work"] == {"samples": 19_200.0, "steps": 300.0}
    assert (finished["state"], finished["is_complete"]) == ("finished", True)
    verdict = finished["verdict"]
    assert (verdict["status"], verdict["direction"], verdict["since"]) == ("confirmed", "worse", 7)
    assert (verdict["change"], verdict["detects"], verdict["unit"]) == (0.2, 0.05, "sample")
    assert verdict["causes"] == ["train took longer"]
    assert (running["cost_usd"], running["verdict"], running["is_complete"]) == (None, None, False)
    assert running["incomplete_because"] == ["its agent hasn't reported its end"]


def test_pages_go_from_the_newest_to_the_oldest_whatever_their_numbers(job):
    now = timezone.now()
    for hours in (3, 1, 5, 2, 4):
        complete(job, started_at=now - timedelta(hours=hours))
    first = ask(job, limit=2)
    second = ask(job, limit=2, cursor=first.json()["next_cursor"])
    # A run that is deleted in between doesn't lose the place.
    Run.objects.filter(number=second.json()["runs"][-1]["number"]).update(deleted_at=now)
    third = ask(job, limit=2, cursor=second.json()["next_cursor"])
    assert numbers(first) + numbers(second) + numbers(third) == [2, 4, 1, 5, 3]
    assert third.json()["next_cursor"] is None


def test_runs_are_filtered_by_state(job):
    complete(job)
    complete(job, state=Run.FAILED)
    assert numbers(ask(job, state="failed")) == [2]
    assert ask(job, state="done").status_code == 422


def test_nobody_reads_the_runs_of_another_workspace(job, stranger):
    complete(job)
    theirs = complete(factories.job(stranger.workspace, "speech"))
    assert ask(job, workspace=stranger.workspace).status_code == 404
    assert ask(job, cursor=theirs.pk).status_code == 422
    assert ask(job, cursor=uuid4()).status_code == 422
    assert ask(job, cursor="x").status_code == 422
    assert ask(job, scope="ingest").status_code == 403


def test_a_deleted_job_and_deleted_runs_are_not_there(job):
    complete(job, deleted_at=timezone.now())
    assert numbers(ask(job)) == []
    Job.objects.update(deleted_at=timezone.now())
    assert ask(job).status_code == 404


def test_twenty_runs_ask_as_often_as_two(job):
    token = Token.make(job.workspace, "script", ["read"])[1]

    def count() -> int:
        with CaptureQueriesContext(connection) as captured:
            headers = {"Authorization": f"Bearer {token}"}
            Client().get(f"/api/v1/jobs/{job.uuid}/runs", headers=headers)
        return len(captured)

    def some(runs: int) -> None:
        for _ in range(runs):
            factories.node(complete(job))

    some(2)
    count()
    few = count()
    some(18)
    assert count() == few
