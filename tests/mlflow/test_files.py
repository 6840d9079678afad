"""Artefacts, datasets and logged models."""

from __future__ import annotations

import json

import pytest

from tests.mlflow.client import STORE, refusal
from webapp.runs.models import Artefact

pytestmark = pytest.mark.django_db
MISSING, INVALID = (404, "RESOURCE_DOES_NOT_EXIST"), (400, "INVALID_PARAMETER_VALUE")


@pytest.fixture
def place(mlflow) -> str:
    """Return the root of a run's files, as its `artifact_uri` has it."""
    uri = mlflow.run(mlflow.start())["info"]["artifact_uri"]
    return str(uri.removeprefix("mlflow-artifacts:/"))


def test_files_are_listed_and_read_by_their_paths(mlflow, place):
    for path, content in {"a.txt": b"one", "deep/b.txt": b"two", "deep/er/c.txt": b"one"}.items():
        assert mlflow.put_file(f"{place}/{path}", content).json() == {}
    assert mlflow.files(place) == [("a.txt", 3), ("deep", None)]
    assert mlflow.files(f"{place}/deep") == [("b.txt", 3), ("er", None)]
    assert mlflow.files(f"{place}/a.txt") == []
    answer = mlflow.get_file(f"{place}/deep/er/c.txt")
    assert b"".join(answer.streaming_content) == b"one"
    assert answer.headers["Content-Disposition"].startswith("attachment; ")
    assert answer.headers["Content-Type"] == "application/octet-stream"
    # One content is kept once.
    assert Artefact.objects.count() == 2
    run_id = place.split("/")[1]
    listed = mlflow.get("artifacts/list", run_id=run_id, path="deep").json()
    assert [each["path"] for each in listed["files"]] == ["deep/b.txt", "deep/er"]
    assert listed["root_uri"].endswith(place)


def test_a_path_has_the_content_that_came_last(mlflow, place):
    for content in (b"one", b"", b"three"):
        mlflow.put_file(f"{place}/a.txt", content)
    assert b"".join(mlflow.get_file(f"{place}/a.txt").streaming_content) == b"three"
    mlflow.client.delete(f"{STORE}/{place}/a.txt", headers=mlflow.headers)
    assert refusal(mlflow.get_file(f"{place}/a.txt")) == MISSING
    assert mlflow.files(place) == []


@pytest.mark.parametrize(
    "path",
    ["../x", "a/../../x", "a//b", "./a", "a\\b", "a\tb", "x" * 501, ""],
)
def test_a_path_that_leads_elsewhere_is_refused(mlflow, place, path):
    answer = mlflow.put_file(f"{place}/{path}".replace("\t", "%09").replace("\\", "%5C"), b"x")
    assert refusal(answer) in (INVALID, MISSING)
    assert Artefact.objects.count() == 0


def test_a_file_needs_a_run_of_the_workspace(mlflow, place):
    experiment, run_id, _ = place.split("/")
    for path in (
        "x",
        f"{experiment}/{run_id}",
        f"{experiment}/{run_id}/x/y",
        f"0/{'f' * 32}/artifacts/x",
    ):
        assert refusal(mlflow.put_file(path, b"x")) == MISSING
    headers = {**mlflow.headers, "Content-Length": str(64 * 2**20 + 1)}
    large = mlflow.client.put(f"{STORE}/{place}/x", b"", headers=headers)
    assert refusal(large) == (413, "RESOURCE_LIMIT_EXCEEDED")


def test_a_logged_model_has_parameters_tags_and_files(mlflow):
    run_id = mlflow.start()
    said = {"experiment_id": mlflow.experiment(), "name": "model", "source_run_id": run_id}
    pairs = [{"key": "C", "value": "1.0"}]
    model = mlflow.post("logged-models", **said, params=pairs, tags=pairs).json()["model"]
    model_id = model["info"]["model_id"]
    place = model["info"]["artifact_uri"].removeprefix("mlflow-artifacts:/")
    mlflow.put_file(f"{place}/MLmodel", b"flavors: {}")
    assert mlflow.files(place) == [("MLmodel", 11)]
    assert mlflow.files(mlflow.run(run_id)["info"]["artifact_uri"][18:]) == []
    ready = json.dumps({"model_id": model_id, "status": "LOGGED_MODEL_READY"})
    assert mlflow.send("PATCH", f"logged-models/{model_id}", ready).status_code == 200
    mlflow.send("PATCH", f"logged-models/{model_id}/tags", '{"tags": [{"key": "a", "value": "b"}]}')
    mlflow.post(f"logged-models/{model_id}/params", params=[{"key": "D", "value": "2"}])
    mlflow.post("runs/outputs", run_id=run_id, models=[{"model_id": model_id, "step": 0}])
    again = mlflow.get(f"logged-models/{model_id}").json()["model"]
    assert again["info"]["status"] == "LOGGED_MODEL_READY"
    assert {each["key"] for each in again["info"]["tags"]} == {"C", "a"}
    assert {each["key"] for each in again["data"]["params"]} == {"C", "D"}
    found = mlflow.post(
        "logged-models/search", experiment_ids=[mlflow.experiment()], filter="name = 'model'"
    )
    assert [each["info"]["model_id"] for each in found.json()["models"]] == [model_id]
    outputs = mlflow.run(run_id)["outputs"]["model_outputs"]
    assert outputs == [{"model_id": model_id, "step": 0}]
    said["source_run_id"] = ""
    assert refusal(mlflow.post("logged-models", **said)) == MISSING


def test_a_model_of_an_earlier_client_is_named_in_the_run_s_tags(mlflow):
    run_id = mlflow.start()
    for path in ("first", "second"):
        body = json.dumps({"run_id": run_id, "artifact_path": path, "flavors": {}})
        assert mlflow.post("runs/log-model", run_id=run_id, model_json=body).json() == {}
    tags = {each["key"]: each["value"] for each in mlflow.run(run_id)["data"]["tags"]}
    logged = json.loads(tags["mlflow.log-model.history"])
    assert [each["artifact_path"] for each in logged] == ["first", "second"]
    large = json.dumps({"artifact_path": "third", "notes": "x" * 7_950})
    assert mlflow.post("runs/log-model", run_id=run_id, model_json=large).status_code == 200
    tags = {each["key"]: each["value"] for each in mlflow.run(run_id)["data"]["tags"]}
    (last,) = json.loads(tags["mlflow.log-model.history"])
    assert last["artifact_path"] == "third"
    larger = json.dumps({"artifact_path": "fourth", "notes": "x" * 9_000})
    assert mlflow.post("runs/log-model", run_id=run_id, model_json=larger).status_code == 200
    tags = {each["key"]: each["value"] for each in mlflow.run(run_id)["data"]["tags"]}
    assert json.loads(tags["mlflow.log-model.history"]) == [last], "it costs the others nothing"
    for wrong in ("{", "[]", 1, None):
        answer = mlflow.post("runs/log-model", run_id=run_id, model_json=wrong)
        assert refusal(answer) == (400, "INVALID_PARAMETER_VALUE")


def test_a_history_of_models_that_is_no_list_is_begun_anew(mlflow):
    run_id = mlflow.start(**{"mlflow.log-model.history": "{"})
    answer = mlflow.post("runs/log-model", run_id=run_id, model_json="{}")
    assert answer.status_code == 200


def test_datasets_are_kept_as_they_were_sent(mlflow):
    run_id = mlflow.start()
    dataset = {"name": "iris", "digest": "2b67", "source_type": "code", "source": "{}"}
    tags = [{"key": "mlflow.data.context", "value": "train"}]
    for _ in range(2):
        said = {"run_id": run_id, "datasets": [{"tags": tags, "dataset": dataset}]}
        assert mlflow.post("runs/log-inputs", **said).json() == {}
    assert mlflow.run(run_id)["inputs"]["dataset_inputs"] == [{"tags": tags, "dataset": dataset}]
