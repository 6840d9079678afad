"""The answers to "what if", over the API, from the stored figures of a run."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.web import factories
from webapp.accounts.models import Token
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db


@pytest.fixture
def run(workspace):
    run = factories.run(factories.job(workspace), seconds=3600)
    factories.node(run)
    return run


@pytest.fixture
def ask(client, workspace):
    token = Token.make(workspace, "script", [Token.READ])[1]

    def asked(run_id: Any, **question: Any) -> Any:
        path, bearer = f"/api/v1/runs/{run_id}/what-if", {"Authorization": f"Bearer {token}"}
        return client.post(path, question, content_type="application/json", headers=bearer)

    return asked


def test_the_cheapest_that_fits_is_chosen_and_the_front_goes_from_fast_to_cheap(ask, run) -> None:
    answer = ask(run.pk, runs_a_month=10)
    assert answer.status_code == 200
    told = answer.json()
    chosen, present = told["chosen"], told["present"]
    assert (present["instance_type"], present["rung"]) == ("c5.large", "same")
    assert float(chosen["cost_mid_usd"]) <= float(present["cost_mid_usd"])
    assert float(told["monthly_usd"]) == pytest.approx(10 * float(chosen["cost_mid_usd"]))
    times = [each["time_mid_seconds"] for each in told["front"]]
    assert times == sorted(times)
    assert len(told["table"]) == 50 < told["table_count"]


def test_region_option_epochs_and_deadline_are_kept(ask, run) -> None:
    twice = ask(run.pk, epochs=2).json()
    # Of its hour, 550 s are training.
    assert twice["present"]["time_mid_seconds"] == pytest.approx(3600 + 550)
    moved = ask(run.pk, regions=["us-west-2"], options=["on_demand"]).json()
    assert {each["region"] for each in moved["table"]} == {"us-west-2"}
    assert moved["present"] is None
    soon = ask(run.pk, objective="deadline", deadline_seconds=4000).json()["chosen"]
    assert soon["time_high_seconds"] <= 4000
    assert ask(run.pk, objective="deadline", deadline_seconds=1).json()["chosen"] is None
    dear = ask(run.pk, objective="fastest", under_usd="0.2").json()["chosen"]
    assert float(dear["cost_high_usd"]) <= 0.2


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ({"objective": "fastest"}, "under_usd"),
        ({"objective": "deadline"}, "deadline_seconds"),
        ({"regions": ["mars-1"]}, "regions"),
        ({"options": ["reserved"]}, "options"),
        ({"epochs": 0}, "body.asked.epochs"),
    ],
)
def test_what_cannot_be_asked_is_refused_with_the_field(ask, run, question, field) -> None:
    answer = ask(run.pk, **question)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert answer.json()["fix"]


def test_a_run_that_tells_too_little_says_what_is_missing(ask, workspace, run) -> None:
    run.summary = factories.summary(memory_p99_bytes=None)
    run.save()
    answer = ask(run.pk)
    assert (answer.status_code, answer.json()["field"]) == (422, "run_id")
    assert "How much memory was in use" in answer.json()["detail"]
    Run.objects.update(state=Run.FAILED)
    assert "finished" in ask(run.pk).json()["detail"]
    theirs = factories.run(factories.job(factories.workspace("Theirs")))
    assert ask(theirs.pk).status_code == ask(uuid4()).status_code == 404


def test_speeds_on_other_gpus_are_told_with_what_they_rest_on(ask, workspace) -> None:
    run = factories.run(factories.job(workspace), seconds=3600)
    gpu = {"model": "NVIDIA A10G", "memory_bytes": 24 * 2**30, "uuid": "GPU-1", "allocated": True}
    sizes = {"vcpus": 4, "effective_cpus": 4.0, "memory_bytes": 16 * 2**30}
    factories.node(run, instance_type="g5.xlarge", gpus=[gpu], **sizes)
    told = ask(run.pk).json()
    rungs = {each["gpu_model"]: each["rung"] for each in told["table"] if each["gpus"]}
    assert rungs["A10G"] == "same"
    assert set(rungs.values()) == {"same", "prior"}
