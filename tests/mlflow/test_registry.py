"""The model registry: names, versions, aliases and stages, as `register_model` asks for them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from tests.mlflow.client import MlflowClient, refusal
from webapp.accounts.models import AuditEntry, Token
from webapp.mlflow_api import registered
from webapp.mlflow_api.models import ModelVersion, RegisteredModel

pytestmark = pytest.mark.django_db
MISSING, INVALID = (404, "RESOURCE_DOES_NOT_EXIST"), (400, "INVALID_PARAMETER_VALUE")
DENIED, TAKEN = (403, "PERMISSION_DENIED"), (400, "RESOURCE_ALREADY_EXISTS")


def register(client: MlflowClient, run_id: str, name: str = "prices", **more: Any) -> Any:
    """Register as `mlflow.register_model` does, and return the answer with the version."""
    client.post("registered-models/create", name=name)
    source = f"mlflow-artifacts:/0/{run_id}/artifacts/model"
    return client.post("model-versions/create", name=name, source=source, run_id=run_id, **more)


def patch(client: MlflowClient, method: str, **said: Any) -> Any:
    return client.send("PATCH", method, json.dumps(said))


def delete(client: MlflowClient, method: str, **said: Any) -> Any:
    return client.send("DELETE", method, json.dumps(said))


def version(client: MlflowClient, number: int, name: str = "prices") -> dict[str, Any]:
    return dict(client.get("model-versions/get", name=name, version=number).json()["model_version"])


def test_versions_count_up_and_no_number_comes_again(mlflow):
    run_id = mlflow.start()
    numbers = [register(mlflow, run_id).json()["model_version"]["version"] for _ in range(2)]
    delete(mlflow, "model-versions/delete", name="prices", version="2")
    third = register(mlflow, run_id).json()["model_version"]
    assert (*numbers, third["version"]) == ("1", "2", "3")
    assert (third["run_id"], third["status"], third["current_stage"]) == (run_id, "READY", "None")
    assert refusal(mlflow.get("model-versions/get", name="prices", version=2)) == MISSING


def test_an_alias_follows_what_it_is_set_to_and_goes_with_its_version(mlflow):
    run_id = mlflow.start()
    for _ in range(2):
        register(mlflow, run_id)
    for number in (1, 2):
        mlflow.post("registered-models/alias", name="prices", alias="best", version=str(number))
    found = mlflow.get("registered-models/alias", name="prices", alias="best").json()
    assert (found["model_version"]["version"], found["model_version"]["aliases"]) == ("2", ["best"])
    delete(mlflow, "model-versions/delete", name="prices", version="2")
    assert refusal(mlflow.get("registered-models/alias", name="prices", alias="best")) == INVALID
    actions = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert list(actions)[-3:] == [
        "registered_model.alias_set",
        "registered_model.alias_set",
        "model_version.deleted",
    ]


@pytest.mark.parametrize("alias", ["", "latest", "Latest", "v1", "a b", "a/b", "x" * 256])
def test_an_alias_that_could_be_mistaken_is_refused(mlflow, alias):
    register(mlflow, mlflow.start())
    said = mlflow.post("registered-models/alias", name="prices", alias=alias, version="1")
    assert refusal(said) == INVALID
    assert RegisteredModel.objects.get().aliases == {}


def test_a_stage_may_archive_the_versions_that_had_it(mlflow):
    run_id = mlflow.start()
    for number in (1, 2):
        register(mlflow, run_id)
        said = {"name": "prices", "version": str(number), "stage": "production"}
        mlflow.post("model-versions/transition-stage", **said, archive_existing_versions=True)
    stages = [version(mlflow, number)["current_stage"] for number in (1, 2)]
    assert stages == ["Archived", "Production"]
    latest = mlflow.post(
        "registered-models/get-latest-versions", name="prices", stages=["Production"]
    )
    assert [each["version"] for each in latest.json()["model_versions"]] == ["2"]


def test_a_renamed_model_keeps_its_versions_and_frees_its_name(mlflow):
    register(mlflow, mlflow.start())
    mlflow.post("registered-models/create", name="taken")
    said = {"name": "prices", "new_name": "taken"}
    assert refusal(mlflow.post("registered-models/rename", **said)) == TAKEN
    mlflow.post("registered-models/rename", name="prices", new_name="rents")
    assert version(mlflow, 1, "rents")["name"] == "rents"
    assert refusal(mlflow.get("registered-models/get", name="prices")) == MISSING


def test_a_source_names_the_files_wherever_they_are(mlflow):
    run_id = mlflow.start()
    made = mlflow.post("logged-models", source_run_id=run_id, name="m").json()["model"]["info"]
    mlflow.post("registered-models/create", name="prices")
    mlflow.post("model-versions/create", name="prices", source=f"models:/{made['model_id']}")
    assert version(mlflow, 1)["run_id"] == run_id
    mlflow.post("model-versions/create", name="prices", source="models:/prices/1")
    place = mlflow.get("model-versions/get-download-uri", name="prices", version=2).json()
    assert place == {"artifact_uri": made["artifact_uri"]}
    for source in ("/etc/passwd", "file:///etc/passwd", "runs:/../x", "", "models:/m-unknown"):
        said = mlflow.post("model-versions/create", name="prices", source=source)
        assert refusal(said) in (INVALID, MISSING), source


def test_a_version_stays_when_its_run_goes(mlflow):
    run_id = mlflow.start()
    register(mlflow, run_id)
    ModelVersion.objects.get().tracked.delete()
    assert version(mlflow, 1)["run_id"] == ""


@pytest.mark.parametrize(
    ("bound", "most", "method", "said"),
    [
        ("MOST_MODELS", 1, "registered-models/create", {"name": "another"}),
        ("MOST_VERSIONS", 1, "model-versions/create", {"source": "s3://bucket/model"}),
        ("MOST_ALIASES", 0, "registered-models/alias", {"alias": "best", "version": "1"}),
        ("MOST_TAGS", 1, "registered-models/set-tag", {"key": "b", "value": "2"}),
        ("MOST_TAG_CHARS", 3, "model-versions/set-tag", {"key": "b", "value": "2", "version": "1"}),
    ],
)
def test_what_a_workspace_registers_is_bounded(mlflow, monkeypatch, bound, most, method, said):
    tags = [{"key": "a", "value": "1"}]
    mlflow.post("registered-models/create", name="prices", tags=tags)
    register(mlflow, mlflow.start(), tags=tags)
    monkeypatch.setattr(registered, bound, most)
    answer = mlflow.post(method, **{"name": "prices", **said})
    assert refusal(answer) == INVALID
    assert str(most) in answer.json()["message"]


@pytest.mark.parametrize(
    ("field", "chars"), [("name", 257), ("description", 5_001), ("name", 0)], ids=str
)
def test_a_text_beyond_its_bound_is_refused_by_its_name(mlflow, field, chars):
    said = {"name": "prices", field: "x" * chars}
    answer = mlflow.post("registered-models/create", **said)
    assert refusal(answer) == INVALID
    assert f"'{field}'" in answer.json()["message"]
    assert not RegisteredModel.objects.exists()


def test_another_workspace_has_a_registry_of_its_own(mlflow, stranger):
    register(mlflow, mlflow.start(), description="secret")
    assert refusal(stranger.get("registered-models/get", name="prices")) == MISSING
    assert refusal(stranger.get("model-versions/get", name="prices", version=1)) == MISSING
    assert stranger.get("model-versions/search").json() == {"model_versions": []}
    assert stranger.post("registered-models/create", name="prices").status_code == 200
    found = stranger.get("registered-models/search").json()["registered_models"]
    assert [(each["name"], each["latest_versions"]) for each in found] == [("prices", [])]


def test_an_ingest_token_reads_and_changes_what_it_registered(workspace, mlflow):
    own = MlflowClient(Client(), Token.make(workspace, "ingest", ["ingest"])[1])
    register(mlflow, mlflow.start())
    made = register(own, own.start()).json()["model_version"]
    assert made["version"] == "2"
    assert version(own, 2)["status"] == "READY"
    assert refusal(own.get("model-versions/get", name="prices", version=1)) == MISSING
    assert refusal(own.get("registered-models/get", name="prices")) == MISSING
    said = {"name": "prices", "description": "mine"}
    assert patch(own, "model-versions/update", **said, version="2").status_code == 200
    assert refusal(patch(own, "model-versions/update", **said, version="1")) == MISSING
    assert refusal(patch(mlflow, "model-versions/update", **said, version="2")) == DENIED


def test_searches_filter_and_sort_names_and_versions(mlflow):
    run_id = mlflow.start()
    for name in ("beta", "alpha"):
        mlflow.post("registered-models/create", name=name, tags=[{"key": "team", "value": name}])
        register(mlflow, run_id, name)

    def names(**said: Any) -> list[str]:
        found = mlflow.get("registered-models/search", **said).json()["registered_models"]
        return [each["name"] for each in found]

    assert names() == ["alpha", "beta"]
    assert names(order_by="name DESC") == ["beta", "alpha"]
    assert names(filter="tags.team = 'beta'") == ["beta"]
    assert names(filter="tags.`mlflow.prompt.is_prompt` != 'true'") == ["alpha", "beta"]
    assert refusal(mlflow.get("registered-models/search", order_by="nonsense")) == INVALID
    versions = mlflow.get(
        "model-versions/search", filter=f"run_id = '{run_id}'", order_by="name ASC"
    )
    found = versions.json()["model_versions"]
    assert [(each["name"], each["version"]) for each in found] == [("alpha", "1"), ("beta", "1")]
