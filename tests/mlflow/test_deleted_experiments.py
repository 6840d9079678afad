"""Experiments that a client deletes are hidden from clients; the job and its cost stay."""

from __future__ import annotations

import pytest
from django.test import Client

from tests.mlflow.client import MlflowClient, refusal
from webapp.accounts.models import AuditEntry, Token
from webapp.runs.models import Job

pytestmark = pytest.mark.django_db


@pytest.fixture
def writer(workspace) -> MlflowClient:
    return MlflowClient(Client(), Token.make(workspace, "writer", ["ingest", "read", "write"])[1])


def stage(client: MlflowClient, experiment_id: str) -> str:
    found = client.get("experiments/get", experiment_id=experiment_id).json()
    return str(found["experiment"]["lifecycle_stage"])


def found_runs(client: MlflowClient, experiment_id: str, view: str = "ACTIVE_ONLY") -> int:
    said = {"experiment_ids": [experiment_id], "run_view_type": view}
    return len(client.post("runs/search", **said).json()["runs"])


def test_a_deleted_experiment_and_its_runs_are_hidden_until_it_is_restored(writer):
    experiment = writer.experiment()
    run_id = writer.start(experiment)
    assert writer.post("experiments/delete", experiment_id=experiment).status_code == 200
    assert stage(writer, experiment) == writer.run(run_id)["info"]["lifecycle_stage"] == "deleted"
    assert writer.post("experiments/search", max_results=9).json()["experiments"] == []
    assert (found_runs(writer, experiment), found_runs(writer, experiment, "ALL")) == (0, 1)
    again = refusal(writer.post("experiments/delete", experiment_id=experiment))
    assert again == (404, "RESOURCE_DOES_NOT_EXIST")
    assert writer.post("experiments/restore", experiment_id=experiment).status_code == 200
    assert stage(writer, experiment) == writer.run(run_id)["info"]["lifecycle_stage"] == "active"
    assert found_runs(writer, experiment) == 1
    assert Job.objects.get().deleted_at is None
    actions = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["mlflow_experiment.deleted", "mlflow_experiment.restored"]


def test_a_deleted_experiment_begins_no_run(writer):
    experiment = writer.experiment()
    writer.post("experiments/delete", experiment_id=experiment)
    answer = writer.post("runs/create", experiment_id=experiment)
    assert refusal(answer) == (400, "INVALID_PARAMETER_VALUE")
    assert "restore_experiment" in answer.json()["message"]


def test_a_new_name_is_the_job_s_and_the_earlier_one_still_finds_it(writer):
    experiment = writer.experiment("first")
    writer.experiment("second")
    said = {"experiment_id": experiment, "new_name": "second"}
    assert refusal(writer.post("experiments/update", **said)) == (400, "BAD_REQUEST")
    writer.post("experiments/update", experiment_id=experiment, new_name="renamed")
    assert writer.experiment("first") == writer.experiment("renamed") == experiment
    assert Job.objects.get(key="first").name == "renamed"


def test_tags_of_a_new_experiment_are_the_job_s_and_can_be_deleted(writer):
    tags = [{"key": "team", "value": "nlp"}, {"key": "mlflow.note.content", "value": "A note"}]
    made = writer.post("experiments/create", name="tagged", tags=tags).json()["experiment_id"]
    assert Job.objects.get().tags == {"team": "nlp"}
    said = {"experiment_id": made, "key": "team"}
    assert writer.post("experiments/delete-experiment-tag", **said).status_code == 200
    assert Job.objects.get().tags == {}
    again = refusal(writer.post("experiments/delete-experiment-tag", **said))
    assert again == (404, "RESOURCE_DOES_NOT_EXIST")
