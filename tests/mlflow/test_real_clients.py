"""MLflow's own clients, unchanged, against the real service."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.mlflow.pythons import VARIABLES, python_with
from tests.running_service import Service, wait_until

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(900)]
PROGRAM = """
import json, math, time
import mlflow
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

mlflow.set_experiment("quickstart")
with mlflow.start_run(run_name="outer", log_system_metrics=True) as outer:
    mlflow.log_params({"lr": 0.01, "amp": True})
    for step in range(5):
        mlflow.log_metric("loss", 1 / (step + 1), step=step)
    mlflow.log_metrics({"nan": math.nan, "inf": math.inf})
    mlflow.set_tag("team", "vision")
    mlflow.log_text("hello", "notes/hello.txt")
    mlflow.log_text("", "notes/empty.txt")
    mlflow.log_artifact(__file__, "notes")
    with mlflow.start_run(nested=True) as inner:
        mlflow.log_metric("inner", 1)
    time.sleep(SECONDS)
mlflow.autolog(log_datasets=True)
data, target = load_iris(return_X_y=True)
LogisticRegression(max_iter=200).fit(data, target)
fitted = mlflow.last_active_run()
client, run_id = MlflowClient(), outer.info.run_id
found = mlflow.search_runs(filter_string="tags.team = 'vision'", output_format="list")
denied = ""
try:
    mlflow.set_experiment_tag("team", "nlp")
except MlflowException as error:
    denied = error.error_code
version = mlflow.register_model(MODEL, "irises")
client.delete_run(inner.info.run_id)
client.restore_run(inner.info.run_id)
path = mlflow.artifacts.download_artifacts(run_id=run_id, artifact_path="notes/hello.txt")
print("SAID " + json.dumps({
    "outer": run_id,
    "denied": denied,
    "inner": inner.info.run_id,
    "fitted": fitted.info.run_id,
    "parent": mlflow.get_run(inner.info.run_id).data.tags["mlflow.parentRunId"],
    "params": mlflow.get_run(run_id).data.params,
    "infinite": math.isinf(mlflow.get_run(run_id).data.metrics["inf"]),
    "system": sorted(k for k in mlflow.get_run(run_id).data.metrics if k.startswith("system/")),
    "loss": [(m.value, m.step) for m in client.get_metric_history(run_id, "loss")],
    "found": [run.info.run_id for run in found],
    "hello": open(path).read(),
    "files": [(f.path, f.file_size) for f in client.list_artifacts(run_id, "notes")],
    "iterations": fitted.data.params["max_iter"],
    "accuracy": fitted.data.metrics["training_accuracy_score"],
    "model": sorted(f.path for f in mlflow.artifacts.list_artifacts(artifact_uri=MODEL)),
    "version": (version.name, version.run_id),
}))
"""
MODELS = {
    "mlflow": "f'models:/{mlflow.last_logged_model().model_id}'",
    "mlflow<3": "f'runs:/{fitted.info.run_id}/model'",
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("mlflow") / "data").start()
    yield service
    service.stop()


@pytest.fixture
def program(service: Service, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Runs the program, after `before`, and returns what it says in the end."""

    def run(requirement: str, seconds: float, *before: str) -> dict[str, Any]:
        script = tmp_path / "quickstart.py"
        text = PROGRAM.replace("MODEL", MODELS[requirement])
        script.write_text(text.replace("SECONDS", str(seconds)))
        said = {
            "MLFLOW_TRACKING_URI": service.url,
            "MLFLOW_TRACKING_TOKEN": service.token,
            "MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL": "1",
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "GIT_PYTHON_REFRESH": "quiet",
            "TRIMTAB_URL": service.url,
            "TRIMTAB_TOKEN": service.token,
            "XDG_CONFIG_HOME": str(tmp_path),
            "TRIMTAB_STATE_DIR": str(tmp_path / "state"),
        }
        command = [*before, python_with(requirement), str(script)]
        done = subprocess.run(
            command,
            env=os.environ | said,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
        )
        lines = [line for line in done.stdout.splitlines() if line.startswith("SAID ")]
        assert lines, done.stdout + done.stderr
        return dict(json.loads(lines[-1].removeprefix("SAID ")))

    return run


def judged(service: Service, run_id: str) -> dict[str, Any]:
    """Return the run, once its final analysis is done."""
    headers = {"Authorization": f"Bearer {service.token}"}

    def read() -> dict[str, Any]:
        address = f"{run_id[:8]}-{run_id[8:12]}-{run_id[12:16]}-{run_id[16:20]}-{run_id[20:]}"
        return dict(httpx.get(f"{service.url}/api/v1/runs/{address}", headers=headers).json())

    wait_until(lambda: read().get("analysis_is_final"), 120, "the run is judged", read)
    return read()


@pytest.mark.parametrize("requirement", sorted(VARIABLES))
def test_an_unchanged_program_becomes_a_run(service, program, requirement):
    said = program(requirement, 4)
    assert said["params"] == {"lr": "0.01", "amp": "True"}
    assert said["loss"] == [[1 / (step + 1), step] for step in range(5)]
    assert said["infinite"]
    assert "system/cpu_utilization_percentage" in said["system"]
    assert said["found"][0] == said["outer"]
    assert said["denied"] == "PERMISSION_DENIED", "the token may only upload"
    assert said["parent"] == said["outer"]
    assert said["hello"] == "hello"
    assert said["files"][:2] == [["notes/empty.txt", 0], ["notes/hello.txt", 5]]
    assert said["files"][2][0] == "notes/quickstart.py"
    assert (said["iterations"], said["accuracy"] > 0.9) == ("200", True)
    assert any(path.endswith("MLmodel") for path in said["model"])
    assert said["version"] == ["irises", said["fitted"]]
    run = judged(service, said["outer"])
    assert (run["job"]["name"], run["state"], run["tags"]) == (
        "quickstart",
        "finished",
        {"team": "vision"},
    )
    assert run["metrics"]["loss"] == 0.2
    assert run["summary"]["cpu_busy_p95_pct"] > 0
    assert run["summary"]["memory_p99_bytes"] > 0
    assert run["summary"]["missing_segments"] == 0
    assert judged(service, said["fitted"])["metrics"]["training_accuracy_score"] > 0.9


def test_a_program_inside_trimtab_run_is_the_agent_s_run(service, program):
    options = ["--job", "wrapped", "--provider", "aws", "--region", "us-east-1"]
    trimtab = [sys.executable, "-m", "trimtab.cli", "run", *options]
    said = program("mlflow", 6, *trimtab, "--instance-type", "c5.large", "--")
    run, inner = judged(service, said["outer"]), judged(service, said["inner"])
    assert (run["job"]["name"], run["state"]) == ("wrapped", "finished")
    assert inner["job"]["name"] == "wrapped"
    # The agent's samples, twice a second, and the program's metrics.
    assert run["metrics"]["loss"] == 0.2
    assert len(run["nodes"]) == 1
    assert run["summary"]["cores_busy_p95"] is not None
    assert run["nodes"][0]["machine_id"] == inner["nodes"][0]["machine_id"]
    assert float(run["cost_usd"]) > 0
    assert float(inner["cost_usd"]) > 0
