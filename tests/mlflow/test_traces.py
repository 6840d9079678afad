"""A program that traces goes on: its client is told once, and nothing of its traces is kept."""

from __future__ import annotations

import json
import secrets

import pytest

from tests.mlflow.client import STORE, refusal
from webapp.accounts.models import Token
from webapp.mlflow_api.models import TrackedRun
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def own_cache(settings, monkeypatch):
    own = {**settings.CACHES["default"], "KEY_PREFIX": secrets.token_hex(8)}
    monkeypatch.setattr(settings, "CACHES", {"default": own})


def ask(mlflow, verb: str, path: str, version: str = "3.0", **body: object):  # type: ignore[no-untyped-def]
    url = f"/api/{version}/mlflow/traces{path}"
    sent = json.dumps(body) if verb != "GET" else ""
    return mlflow.client.generic(verb, url, sent, "application/json", headers=mlflow.headers)


def trace(run_id: str = "", experiment: str = "7") -> dict[str, object]:
    metadata = {"mlflow.sourceRun": run_id} if run_id else {}
    place = {"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": {"experiment_id": experiment}}
    info = {"trace_id": f"tr-{secrets.token_hex(16)}", "trace_location": place, "state": "OK"}
    return {"trace": {"trace_info": {**info, "trace_metadata": metadata, "tags": {"a": "b"}}}}


def test_the_first_trace_of_a_run_is_refused_in_words_and_the_next_ones_are_dropped(mlflow):
    run_id = mlflow.start()
    first = ask(mlflow, "POST", "", **trace(run_id))
    assert refusal(first) == (400, "BAD_REQUEST")
    assert "keeps no traces" in first.json()["message"]
    for _ in range(3):
        said = trace(run_id)
        info = ask(mlflow, "POST", "", **said).json()["trace"]["trace_info"]
        assert info["trace_id"] == said["trace"]["trace_info"]["trace_id"]
        assert info["tags"] == {"a": "b", "mlflow.trace.spansLocation": "TRACKING_STORE"}
    assert refusal(ask(mlflow, "POST", "", **trace(mlflow.start())))[0] == 400


def test_the_run_says_on_its_page_that_its_traces_are_not_kept(mlflow, workspace):
    run_id = mlflow.start()
    ask(mlflow, "POST", "", **trace(run_id))
    assert TrackedRun.objects.get().tags["trimtab.traces"] == "not kept"
    assert Run.objects.get().tags["trimtab.traces"] == "not kept"


def test_a_trace_changes_no_run_of_another_token(mlflow, workspace, stranger):
    run_id = mlflow.start()
    mlflow.token = Token.make(workspace, "idle", ["ingest"])[1]
    for client in (mlflow, stranger):
        assert refusal(ask(client, "POST", "", **trace(run_id)))[0] == 400
    assert "trimtab.traces" not in TrackedRun.objects.get().tags


def test_a_trace_outside_of_a_run_is_told_once_for_its_experiment(mlflow):
    answers = [ask(mlflow, "POST", "", **trace(experiment=each)) for each in ("7", "7", "8")]
    assert [each.status_code for each in answers] == [400, 200, 400]


def test_a_client_before_version_3_is_told_when_it_writes_the_spans(mlflow):
    run_id = mlflow.start()
    metadata = [{"key": "mlflow.sourceRun", "value": run_id}]
    tag = {"key": "mlflow.traceName", "value": "square"}
    statuses = []
    for _ in range(3):
        said = {"experiment_id": "7", "timestamp_ms": 5, "request_metadata": metadata}
        begun = ask(mlflow, "POST", "", "2.0", **said, tags=[tag]).json()["trace_info"]
        place = {each["key"]: each["value"] for each in begun["tags"]}["mlflow.artifactLocation"]
        assert begun["tags"][0] == tag
        url = f"{STORE}/{place.removeprefix('mlflow-artifacts:/')}/traces.json"
        statuses.append(mlflow.client.put(url, b"{}", headers=mlflow.headers).status_code)
        assert mlflow.client.get(url, headers=mlflow.headers).status_code == 404
        ended = {"request_id": begun["request_id"], "status": "OK"}
        path = f"/{begun['request_id']}"
        assert ask(mlflow, "PATCH", path, "2.0", **ended).json()["trace_info"] == ended
    assert statuses == [400, 200, 200]
    assert TrackedRun.objects.get().tags["trimtab.traces"] == "not kept"


def test_searches_find_nothing_and_a_trace_does_not_exist(mlflow):
    assert ask(mlflow, "POST", "/search", locations=[]).json()["traces"] == []
    assert ask(mlflow, "GET", "", "2.0").json()["traces"] == []
    assert ask(mlflow, "POST", "/batchGet", trace_ids=["tr-1"]).json()["traces"] == []
    for answer in (ask(mlflow, "GET", "/tr-1"), ask(mlflow, "GET", "/tr-1/info", "2.0")):
        assert refusal(answer) == (404, "RESOURCE_DOES_NOT_EXIST")


def test_what_is_said_about_a_trace_is_dropped(mlflow):
    for verb in ("PATCH", "DELETE"):
        answer = ask(mlflow, verb, "/tr-1/tags", "2.0", key="a", value="1")
        assert answer.status_code == 200
    assert ask(mlflow, "POST", "/delete-traces", "2.0").json() == {"traces_deleted": 0}
    judged = {"assessment_name": "good", "trace_id": "tr-1", "feedback": {"value": True}}
    kept = ask(mlflow, "POST", "/tr-1/assessments", assessment=judged).json()["assessment"]
    assert kept.pop("assessment_id").startswith("a-")
    assert kept == judged


@pytest.mark.parametrize("said", [{}, {"trace": 1}, {"trace": {"trace_info": []}}])
def test_a_request_that_is_no_trace_names_what_is_missing(mlflow, said):
    assert refusal(ask(mlflow, "POST", "", **said)) == (400, "INVALID_PARAMETER_VALUE")


@pytest.mark.parametrize(
    "wrong",
    [
        {"trace_metadata": 1, "tags": [], "trace_location": None},
        {"trace_metadata": {"mlflow.sourceRun": "x" * 9}},
    ],
)
def test_a_trace_with_odd_fields_is_told_too(mlflow, wrong):
    for status in (400, 200):
        assert ask(mlflow, "POST", "", trace={"trace_info": wrong}).status_code == status


def test_nobody_else_is_answered(mlflow):
    mlflow.token = "tt_guessed"
    assert refusal(ask(mlflow, "POST", "/search")) == (401, "UNAUTHENTICATED")
