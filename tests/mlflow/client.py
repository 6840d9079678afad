"""Requests as MLflow's own client sends them, recorded from versions 2.22 and 3.17."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.test import Client

from webapp.analysis.tasks import evaluate
from webapp.runs.models import Run

STORE = "/api/2.0/mlflow-artifacts/artifacts"


@dataclass
class MlflowClient:
    client: Client
    token: str
    began_ms: int = field(default_factory=lambda: time.time_ns() // 10**6 - 3_600_000)
    """An hour ago, so that a run of some minutes has passed."""

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def get(self, method: str, **query: Any):  # type: ignore[no-untyped-def]
        return self.client.get(f"/api/2.0/mlflow/{method}", query, headers=self.headers)

    def post(self, method: str, **body: Any):  # type: ignore[no-untyped-def]
        return self.send("POST", method, json.dumps(body))

    def send(self, verb: str, method: str, body: str | bytes):  # type: ignore[no-untyped-def]
        url, kind = f"/api/2.0/mlflow/{method}", "application/json"
        return self.client.generic(verb, url, body, kind, headers=self.headers)

    def experiment(self, name: str = "digits") -> str:
        """Return the experiment's id, as `mlflow.set_experiment` asks for it."""
        known = self.get("experiments/get-by-name", experiment_name=name)
        if known.status_code == 404:
            return self.post("experiments/create", name=name).json()["experiment_id"]
        return known.json()["experiment"]["experiment_id"]

    def start(self, experiment_id: str = "", parent: str = "", **tags: str) -> str:
        """Start a run as `mlflow.start_run` does, and return its id."""
        said = {"mlflow.user": "ada", "mlflow.source.name": "/home/ada/train.py", **tags}
        said |= {"mlflow.parentRunId": parent} if parent else {}
        answer = self.post(
            "runs/create",
            experiment_id=experiment_id or self.experiment(),
            user_id="ada",
            run_name="first",
            start_time=self.began_ms,
            tags=[{"key": key, "value": value} for key, value in said.items()],
        )
        assert answer.status_code == 200, answer.content
        return str(answer.json()["run"]["info"]["run_id"])

    def log(self, run_id: str, *metrics: tuple[str, Any, float, int], **more: Any):  # type: ignore[no-untyped-def]
        """Log as `log_batch` does. A metric: its name, value, seconds since the start, and step."""
        said = [
            {"key": key, "value": value, "timestamp": self.at(seconds), "step": step}
            for key, value, seconds, step in metrics
        ]
        return self.post("runs/log-batch", run_id=run_id, metrics=said, **more)

    def end(self, run_id: str, seconds: float, status: str = "FINISHED"):  # type: ignore[no-untyped-def]
        return self.post(
            "runs/update", run_id=run_id, run_uuid=run_id, status=status, end_time=self.at(seconds)
        )

    def at(self, seconds: float) -> int:
        return self.began_ms + round(seconds * 1000)

    def run(self, run_id: str) -> dict[str, Any]:
        """Return the run, as `mlflow.get_run` asks for it."""
        return dict(self.get("runs/get", run_id=run_id, run_uuid=run_id).json()["run"])

    def metrics(self, run_id: str) -> dict[str, Any]:
        return {each["key"]: each["value"] for each in self.run(run_id)["data"]["metrics"]}

    def history(self, run_id: str, key: str) -> list[tuple[Any, int, int]]:
        answer = self.get("metrics/get-history", run_id=run_id, metric_key=key, max_results=25000)
        assert answer.status_code == 200, answer.content
        return [(m["value"], m["timestamp"], m["step"]) for m in answer.json()["metrics"]]

    def put_file(self, path: str, content: bytes):  # type: ignore[no-untyped-def]
        url = f"{STORE}/{path}"
        return self.client.put(url, content, content_type="text/plain", headers=self.headers)

    def get_file(self, path: str):  # type: ignore[no-untyped-def]
        return self.client.get(f"{STORE}/{path}", headers=self.headers)

    def files(self, path: str) -> list[tuple[str, int | None]]:
        answer = self.client.get(STORE, {"path": path}, headers=self.headers)
        assert answer.status_code == 200, answer.content
        return [(each["path"], each.get("file_size")) for each in answer.json()["files"]]

    def judged(self, run_id: str) -> Run:
        """Return the run after its analysis."""
        evaluate(str(UUID(hex=run_id)))
        return Run.objects.get(pk=UUID(hex=run_id))


def refusal(answer: Any) -> tuple[int, str]:
    """Return status and code of an error, which is in MLflow's form."""
    assert answer.headers["Content-Type"] == "application/json"
    document = answer.json()
    assert set(document) == {"error_code", "message"}
    return answer.status_code, document["error_code"]
