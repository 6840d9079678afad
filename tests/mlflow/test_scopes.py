"""The rights that each scope of a token gives a client, beside the walk of every method."""

from __future__ import annotations

import secrets

import pytest
from django.test import Client

from tests.mlflow.client import STORE, MlflowClient, refusal
from webapp.accounts.models import AuditEntry, Token
from webapp.runs.models import Job, Run

pytestmark = pytest.mark.django_db
MISSING, DENIED = (404, "RESOURCE_DOES_NOT_EXIST"), (403, "PERMISSION_DENIED")


def client_with(workspace, *scopes: str) -> MlflowClient:
    return MlflowClient(Client(), Token.make(workspace, "-".join(scopes), list(scopes))[1])


@pytest.fixture
def idle(workspace) -> MlflowClient:
    """Return a client with an ingest token that uploaded nothing."""
    return client_with(workspace, "ingest")


@pytest.fixture
def secret_job(workspace, mlflow) -> Job:
    """Return a job with a run of another token."""
    mlflow.start(mlflow.experiment("zephyr"))
    job = Job.objects.get()
    Job.objects.update(tags={"team": "vision"})
    return job


def test_an_ingest_token_reads_no_job_by_counting_ids(idle, secret_job):
    for number in range(secret_job.pk + 3):
        answer = idle.get("experiments/get", experiment_id=str(number))
        assert b"zephyr" not in answer.content
        assert b"vision" not in answer.content
        if number:
            assert refusal(answer) == MISSING
            assert refusal(idle.post("runs/create", experiment_id=str(number))) == MISSING
    assert Run.objects.count() == 1
    assert idle.post("experiments/search", max_results=100).json() == {"experiments": []}


def test_an_ingest_token_changes_no_tags_of_a_job(workspace, idle, secret_job):
    own = idle.experiment("own")
    idle.start(own)
    for experiment in (own, idle.experiment("zephyr")):
        said = {"experiment_id": experiment, "key": "team", "value": "nlp"}
        assert refusal(idle.post("experiments/set-experiment-tag", **said)) == DENIED
    secret_job.refresh_from_db()
    assert secret_job.tags == {"team": "vision"}
    assert Job.objects.get(name="own").tags == {}


def test_an_ingest_token_deletes_no_files_of_another_one(workspace, idle, mlflow):
    run_id = mlflow.start()
    mlflow.put_file(f"0/{run_id}/artifacts/deep/theirs.txt", b"theirs")
    folders = (f"{STORE}/0/{run_id}/artifacts{rest}" for rest in ("", "/deep", "/deep/theirs.txt"))
    for url in folders:
        assert refusal(idle.client.delete(url, headers=idle.headers)) == MISSING
    assert mlflow.files(f"0/{run_id}/artifacts/deep") == [("theirs.txt", 6)]


def test_an_ingest_token_begins_runs_of_any_job_by_its_name(idle, secret_job):
    """`mlflow.set_experiment`, then `mlflow.start_run`."""
    known = idle.get("experiments/get-by-name", experiment_name="zephyr").json()["experiment"]
    place = f"mlflow-artifacts:/{known['experiment_id']}"
    assert known.pop("artifact_location") == place
    again = idle.get("experiments/get", experiment_id=known["experiment_id"]).json()
    assert again == {"experiment": {**known, "artifact_location": place}}
    assert set(known) == {"experiment_id", "name", "lifecycle_stage"}
    taken = idle.post("experiments/create", name="zephyr")
    assert refusal(taken) == (400, "RESOURCE_ALREADY_EXISTS")
    run_id = idle.start(known["experiment_id"])
    assert Run.objects.get(pk=run_id).job == secret_job
    (found,) = idle.post("experiments/search", max_results=100).json()["experiments"]
    assert (found["name"], found["tags"]) == ("zephyr", [{"key": "team", "value": "vision"}])


def test_an_ingest_token_reads_the_experiment_that_it_made(idle):
    made = idle.post("experiments/create", name="own").json()["experiment_id"]
    found = idle.get("experiments/get", experiment_id=made).json()["experiment"]
    assert (found["name"], found["lifecycle_stage"]) == ("own", "active")


def test_an_experiment_of_an_earlier_version_s_id_is_found_by_who_may_read_it(
    mlflow, idle, secret_job
):
    number = str(secret_job.pk)
    found = mlflow.get("experiments/get", experiment_id=number).json()["experiment"]
    assert found["name"] == "zephyr"
    run_id = mlflow.start(number)
    assert Run.objects.get(pk=run_id).job == secret_job
    idle.start(idle.experiment("zephyr"))
    assert idle.get("experiments/get", experiment_id=number).status_code == 200


def test_asking_for_the_default_experiment_makes_no_job(idle):
    for said in ({"experiment_id": "0"}, {"experiment_name": "Default"}):
        method = "get" if "experiment_id" in said else "get-by-name"
        found = idle.get(f"experiments/{method}", **said).json()["experiment"]
        assert (found["experiment_id"], found["name"]) == ("0", "Default")
    assert Job.objects.count() == 0


def test_tags_of_a_job_change_as_its_page_changes_them(workspace, secret_job):
    editor = client_with(workspace, "write")
    said = {"experiment_id": str(secret_job.pk), "key": "team", "value": "nlp"}
    for _ in range(2):
        assert editor.post("experiments/set-experiment-tag", **said).json() == {}
    secret_job.refresh_from_db()
    assert secret_job.tags == {"team": "nlp"}
    (entry,) = AuditEntry.objects.filter(workspace=workspace)
    assert (entry.action, entry.subject) == ("job.edited", "zephyr")
    assert entry.change == {"tags": [{"team": "vision"}, {"team": "nlp"}]}
    assert entry.actor_name.startswith("token write ")
    nameless = editor.post("experiments/set-experiment-tag", key="team", value="nlp")
    assert refusal(nameless) == (400, "INVALID_PARAMETER_VALUE")
    many = {f"k{number}": "" for number in range(500)}
    Job.objects.update(tags=many)
    answer = editor.post("experiments/set-experiment-tag", **said)
    assert refusal(answer) == (400, "INVALID_PARAMETER_VALUE")


def test_a_run_that_is_deleted_or_restored_is_in_the_history_once(workspace, mlflow):
    run_id = mlflow.start()
    for verb in ("delete", "delete", "restore", "restore"):
        assert mlflow.post(f"runs/{verb}", run_id=run_id).json() == {}
    entries = AuditEntry.objects.filter(workspace=workspace).order_by("pk")
    assert [entry.action for entry in entries] == ["mlflow_run.deleted", "mlflow_run.restored"]
    assert {entry.subject for entry in entries} == {"digits #1"}


def test_tags_of_another_token_s_run_change_as_its_page_changes_them(workspace, mlflow):
    run_id = mlflow.start(team="vision")
    reader = client_with(workspace, "ingest", "read")
    said = {"run_id": run_id, "key": "team", "value": "nlp"}
    assert refusal(reader.post("runs/set-tag", **said)) == DENIED
    assert client_with(workspace, "write").post("runs/set-tag", **said).json() == {}
    mlflow.post("runs/set-tag", run_id=run_id, key="team", value="speech")
    run = Run.objects.get()
    assert (run.tags, run.edited_tags) == ({"team": "nlp"}, ["team"])
    (entry,) = AuditEntry.objects.filter(workspace=workspace)
    assert entry.action == "run.edited"
    assert entry.change == {"tags": [{"team": "vision"}, {"team": "nlp"}]}


def test_a_run_goes_on_with_another_token_that_reads_it(workspace, mlflow, idle):
    """`mlflow.start_run(run_id=...)`, on another machine."""
    run_id = mlflow.start()
    mlflow.end(run_id, 60)
    assert refusal(idle.post("runs/update", run_id=run_id, status="RUNNING")) == MISSING
    other = client_with(workspace, "ingest", "read")
    assert refusal(other.end(run_id, 1)) == DENIED
    assert other.post("runs/update", run_id=run_id, status="RUNNING").status_code == 200
    assert other.log(run_id, tags=[{"key": "node", "value": "2"}]).status_code == 200
    assert other.end(run_id, 120).status_code == 200


def test_an_upload_by_a_run_s_id_lets_its_token_read_the_run(workspace, mlflow):
    """The nodes of a run may have different tokens."""
    run_id = mlflow.start()
    place = f"0/{run_id}/artifacts"
    model = {"source_run_id": run_id, "name": "model"}
    metric = {"run_id": run_id, "key": "loss", "value": 1, "timestamp": 1}
    dataset = {"dataset": {"name": "iris", "digest": "1"}}
    for upload in (
        lambda node: node.post("runs/log-metric", **metric),
        lambda node: node.post("runs/log-inputs", run_id=run_id, datasets=[dataset]),
        lambda node: node.post("runs/outputs", run_id=run_id, models=[]),
        lambda node: node.post("logged-models", **model),
        lambda node: node.put_file(f"{place}/{node.token}.txt", b"x"),
    ):
        node = client_with(workspace, "ingest")
        assert refusal(node.get("runs/get", run_id=run_id)) == MISSING
        assert upload(node).status_code == 200
        assert node.run(run_id)["info"]["run_id"] == run_id


def test_an_ingest_token_deletes_the_files_that_it_wrote(workspace, mlflow, idle):
    run_id = mlflow.start()
    place = f"0/{run_id}/artifacts"
    mlflow.put_file(f"{place}/deep/theirs.txt", b"theirs")
    assert refusal(idle.put_file(f"{place}/deep/theirs.txt", b"ours")) == MISSING
    assert idle.put_file(f"{place}/deep/own.txt", b"own").status_code == 200
    for path in ("", "/deep", "/deep/theirs.txt"):
        answer = idle.client.delete(f"{STORE}/{place}{path}", headers=idle.headers)
        assert refusal(answer) == DENIED
    assert mlflow.files(f"{place}/deep") == [("own.txt", 3), ("theirs.txt", 6)]
    for _ in range(2):
        url = f"{STORE}/{place}/deep/own.txt"
        assert idle.client.delete(url, headers=idle.headers).json() == {}
    assert mlflow.files(f"{place}/deep") == [("theirs.txt", 6)]
    (entry,) = AuditEntry.objects.filter(workspace=workspace)
    assert (entry.action, entry.subject) == ("artefacts.deleted", "digits #1")
    assert entry.change == {"files": [1, 0], "first": ["deep/own.txt", None]}


def test_a_token_that_may_write_deletes_files_of_others(workspace, mlflow):
    run_id = mlflow.start()
    place = f"0/{run_id}/artifacts"
    mlflow.put_file(f"{place}/a.txt", b"a")
    model = mlflow.post("logged-models", source_run_id=run_id, name="m").json()["model"]["info"]
    within_model = model["artifact_uri"].removeprefix("mlflow-artifacts:/")
    mlflow.put_file(f"{within_model}/MLmodel", b"m")
    editor = client_with(workspace, "write")
    for path in (place, within_model):
        assert editor.client.delete(f"{STORE}/{path}", headers=editor.headers).json() == {}
        assert mlflow.files(path) == []
    assert AuditEntry.objects.filter(action="artefacts.deleted").count() == 2


def test_a_file_of_a_model_names_no_run_to_who_may_not_read_it(mlflow, idle):
    run_id = mlflow.start()
    model = mlflow.post("logged-models", source_run_id=run_id, name="m").json()["model"]["info"]
    path = model["artifact_uri"].removeprefix("mlflow-artifacts:/")
    answer = idle.get_file(f"{path}/MLmodel")
    assert refusal(answer) == MISSING
    assert run_id.encode() not in answer.content


def test_an_upload_token_can_not_fill_the_history(workspace, idle, settings, monkeypatch):
    nothing_counted = {**settings.CACHES["default"], "KEY_PREFIX": secrets.token_hex(8)}
    monkeypatch.setattr(settings, "CACHES", {"default": nothing_counted})
    workspace.quotas = {"token_upload_bytes": 20_000}
    workspace.save()
    run_id = idle.start()
    verbs = ("delete", "restore") * 20
    statuses = [idle.post(f"runs/{verb}", run_id=run_id).status_code for verb in verbs]
    assert (statuses[0], statuses[-1]) == (200, 429)
    assert 0 < AuditEntry.objects.count() <= 20
