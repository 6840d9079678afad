"""Requests that are wrong, or for what is elsewhere or somebody else's, are refused in MLflow's own
form.
"""

from __future__ import annotations

import json
import secrets

import pytest

from tests.mlflow.client import STORE, refusal
from webapp.accounts.models import Token
from webapp.mlflow_api import feeding
from webapp.mlflow_api.methods import METHODS
from webapp.mlflow_api.models import TrackedRun
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db
MISSING, INVALID = (404, "RESOURCE_DOES_NOT_EXIST"), (400, "INVALID_PARAMETER_VALUE")
UNKNOWN = (404, "ENDPOINT_NOT_FOUND")


@pytest.mark.parametrize(
    ("verb", "url"),
    [
        ("POST", "/api/2.0/mlflow/webhooks"),
        ("GET", "/api/2.0/mlflow/runs/create"),
        ("DELETE", "/api/2.0/mlflow/runs/get"),
        ("GET", "/api/3.0/mlflow/server-info"),
        ("PUT", "/api/3.0/mlflow/traces/tr-1"),
        ("POST", "/api/2.0/mlflow-artifacts/mpu/create/1/2"),
        ("PATCH", f"{STORE}/0/{'a' * 32}/artifacts/x"),
        ("POST", STORE),
        ("GET", "/api/2.0/anything"),
    ],
)
def test_what_is_not_supported_is_said_in_mlflow_s_form(mlflow, verb, url):
    said = mlflow.client.generic(verb, url, "{}", "application/json", headers=mlflow.headers)
    assert refusal(said) == UNKNOWN


@pytest.mark.parametrize("url", ["/api/2.0/mlflow/runs/get", STORE, "/api/3.0/mlflow/traces"])
@pytest.mark.parametrize("header", ["", "Bearer no", "Basic %%", "Basic bm8=", "Digest x"])
def test_without_a_valid_token_nothing_is_answered(mlflow, url, header):
    said = mlflow.client.get(url, headers={"Authorization": header} if header else {})
    assert refusal(said) == (401, "UNAUTHENTICATED")


def test_another_workspace_s_rows_do_not_exist(mlflow, stranger):
    experiment = mlflow.experiment("secret")
    run_id = mlflow.start(experiment)
    mlflow.log(run_id, ("loss", 1.0, 1, 0))
    path = f"{experiment}/{run_id}/artifacts"
    mlflow.put_file(f"{path}/secret.txt", b"secret")
    model = {"experiment_id": experiment, "name": "m", "source_run_id": run_id}
    model_id = mlflow.post("logged-models", **model).json()["model"]["info"]["model_id"]
    before = TrackedRun.objects.get()
    for (verb, method), _ in METHODS.items():
        named = {
            "experiment_id": experiment,
            "experiment_name": "secret",
            "run_id": run_id,
            "run_uuid": run_id,
            "source_run_id": run_id,
            "metric_key": "loss",
            "key": "loss",
            "value": 2,
            "timestamp": 3,
            "status": "FAILED",
            "model_id": model_id,
        }
        if verb == "GET":
            answer = stranger.get(method.replace("{id}", model_id), **named)
        else:
            path = method.replace("{id}", model_id).replace("{key}", "loss")
            answer = stranger.send(verb, path, json.dumps(named))
        is_open = method.endswith(("/search", "experiments/create"))
        assert is_open or answer.status_code in (400, 404), (method, answer.content)
        assert b"secret" not in answer.content.replace(b"name 'secret'", b"")
    found = stranger.post("runs/search", experiment_ids=[experiment]).json()
    assert found == {"runs": []}
    for answer in (stranger.get_file(f"{path}/secret.txt"), stranger.put_file(f"{path}/x", b"x")):
        assert refusal(answer) == MISSING
    assert refusal(stranger.get_file(f"{experiment}/models/{model_id}/artifacts/x")) == MISSING
    after = TrackedRun.objects.get(pk=before.pk)
    assert (after.status, after.latest, after.tags) == (before.status, before.latest, before.tags)


@pytest.mark.parametrize(
    "changes",
    [
        {"key": ""},
        {"key": "a" * 251},
        {"key": "../../etc/passwd"},
        {"key": "/absolute"},
        {"key": "a\nb"},
        {"key": "nul\0"},
        {"key": 7},
        {"value": "many"},
        {"value": True},
        {"value": [1]},
        {"timestamp": -1},
        {"timestamp": 10**18},
        {"timestamp": 1.5},
        {"step": 2**63},
        {"step": "x"},
    ],
    ids=str,
)
def test_an_invalid_metric_is_refused_and_logs_nothing(mlflow, changes):
    run_id = mlflow.start()
    metric = {"key": "loss", "value": 1.0, "timestamp": mlflow.at(1), "step": 0} | changes
    assert refusal(mlflow.post("runs/log-metric", run_id=run_id, **metric)) == INVALID
    assert refusal(mlflow.post("runs/log-batch", run_id=run_id, metrics=[metric])) == INVALID
    assert TrackedRun.objects.get().latest == {}


@pytest.mark.parametrize("body", ["", "[]", "nonsense", "7", "[" * 100_000, '{"run_id": {}}'])
def test_a_body_that_is_no_request_is_refused(mlflow, body):
    code = refusal(mlflow.send("POST", "runs/log-batch", body))
    assert code in (INVALID, MISSING)


def test_a_body_or_batch_that_is_too_large_is_refused(mlflow):
    run_id = mlflow.start()
    assert refusal(mlflow.send("POST", "runs/log-batch", " " * 2_097_153))[0] == 413
    many = [(f"m{n}", 1.0, 1, 0) for n in range(1001)]
    assert refusal(mlflow.log(run_id, *many)) == INVALID
    assert mlflow.log(run_id, *many[:1000]).status_code == 200
    tags = [{"key": f"t{n}", "value": ""} for n in range(101)]
    assert refusal(mlflow.log(run_id, tags=tags)) == INVALID


def test_a_run_shows_at_most_500_parameters_and_keeps_all(mlflow):
    run_id = mlflow.start()
    for first in range(0, 600, 100):
        params = [{"key": f"p{n}", "value": "1"} for n in range(first, first + 100)]
        assert mlflow.log(run_id, params=params).status_code == 200
    assert len(Run.objects.get().parameters) == 500
    assert len(mlflow.run(run_id)["data"]["params"]) == 600


@pytest.mark.parametrize(
    "run_id", ["", "x", "0" * 32, "3212ed1b-0736-4526-bcca-495c1625f195", "A" * 32, 7]
)
def test_an_unknown_run_does_not_exist(mlflow, run_id):
    assert refusal(mlflow.get("runs/get", run_id=run_id)) == MISSING
    assert refusal(mlflow.post("runs/log-batch", run_id=run_id)) == MISSING


def test_an_experiment_is_made_once(mlflow):
    mlflow.experiment("digits")
    again = mlflow.post("experiments/create", name="digits")
    assert refusal(again) == (400, "RESOURCE_ALREADY_EXISTS")
    for name in ("", " ", "x" * 121, 7):
        assert refusal(mlflow.post("experiments/create", name=name)) == INVALID
    for unknown in ("x", "999999", "-1", "9" * 30):
        assert refusal(mlflow.get("experiments/get", experiment_id=unknown)) == MISSING
        assert refusal(mlflow.post("runs/create", experiment_id=unknown)) == MISSING


def test_a_workspace_beyond_its_runs_is_asked_to_wait(mlflow, workspace, settings, monkeypatch):
    nothing_counted = {**settings.CACHES["default"], "KEY_PREFIX": secrets.token_hex(8)}
    monkeypatch.setattr(settings, "CACHES", {"default": nothing_counted})
    workspace.quotas = {"runs": 1}
    workspace.save()
    mlflow.start()
    said = mlflow.post("runs/create", experiment_id=mlflow.experiment())
    assert refusal(said) == (429, "REQUEST_LIMIT_EXCEEDED")
    assert int(said.headers["Retry-After"]) > 0
    assert Run.objects.count() == TrackedRun.objects.count() == 1


def test_a_removed_token_is_refused(mlflow, workspace):
    run_id = mlflow.start()
    Token.objects.get().delete()
    assert refusal(mlflow.log(run_id, ("loss", 1.0, 1, 0))) == (401, "UNAUTHENTICATED")


def test_metrics_of_many_days_are_taken_in_parts(mlflow):
    mlflow.began_ms -= 120 * 86_400_000
    run_id = mlflow.start()
    days = [("loss", 1.0, day * 86_400, day) for day in range(101)]
    assert refusal(mlflow.log(run_id, *days)) == INVALID
    assert mlflow.log(run_id, *days[:60]).status_code == 200
    assert mlflow.log(run_id, *days[60:]).status_code == 200
    assert [step for _, _, step in mlflow.history(run_id, "loss")] == list(range(101))


@pytest.mark.parametrize("start_time", [0, 4_102_444_800_000])
def test_a_run_of_another_age_begins_now(mlflow, start_time):
    mlflow.began_ms = start_time
    run_id = mlflow.start()
    assert mlflow.run(run_id)["info"]["start_time"] == start_time
    assert (
        mlflow.log(run_id, ("loss", 1.0, -1, 0) if start_time else ("loss", 1.0, 1, 0)).status_code
        == 200
    )
    assert mlflow.end(run_id, 0).status_code == 200
    run = Run.objects.get()
    assert abs((run.started_at - run.created_at).total_seconds()) < 60
    assert run.duration.total_seconds() < 60


def test_a_run_has_a_bounded_number_of_nodes(mlflow, monkeypatch):
    monkeypatch.setattr(feeding, "MOST_FEEDS", 3)
    run_id = mlflow.start()
    for number in range(3):
        name = f"system/n{number}/cpu_utilization_percentage"
        assert mlflow.log(run_id, (name, 1.0, 1, 0)).status_code == 200
    more = mlflow.log(run_id, ("system/n3/cpu_utilization_percentage", 1.0, 1, 0))
    assert refusal(more) == INVALID


def test_what_a_client_logged_goes_with_its_run(mlflow):
    run_id = mlflow.start()
    mlflow.log(run_id, ("loss", 1.0, 1, 0))
    mlflow.put_file(f"0/{run_id}/artifacts/x", b"x")
    Run.objects.get().delete()
    assert refusal(mlflow.get("runs/get", run_id=run_id)) == MISSING
    assert TrackedRun.objects.count() == 0


def test_the_texts_of_a_run_are_bounded_together(mlflow):
    run_id = mlflow.start()
    answers = []
    for first in range(0, 200, 100):
        tags = [{"key": f"t{n}", "value": "x" * 7_000} for n in range(first, first + 100)]
        answers.append(mlflow.log(run_id, tags=tags))
    assert answers[0].status_code == 200
    assert refusal(answers[1]) == INVALID
    for number in range(40):
        dataset = {"name": f"d{number}", "schema": "x" * 50_000}
        said = {"run_id": run_id, "datasets": [{"dataset": dataset}]}
        assert mlflow.post("runs/log-inputs", **said).status_code == 200
    assert len(mlflow.run(run_id)["inputs"]["dataset_inputs"]) == 19
