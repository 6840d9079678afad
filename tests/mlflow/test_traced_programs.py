"""Programs that trace, unchanged, with MLflow's own clients against the real service."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mlflow.pythons import VARIABLES, python_with
from tests.running_service import Service

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(900)]
PROGRAM = """
import json, mlflow
from mlflow import MlflowClient

experiment = mlflow.set_experiment("traced")
square = mlflow.trace(lambda x: x * x, name="square")
answers = []
for name in ("first", "second"):
    with mlflow.start_run(run_name=name) as run:
        answers += [square(x) for x in range(5)]
        with mlflow.start_span("outer") as span:
            span.set_inputs({"question": "why"})
            with mlflow.start_span("inner") as inner:
                inner.set_outputs("because")
        mlflow.log_metric("loss", 1.0)
client = MlflowClient()
manual = client.start_trace("manual", inputs={"x": 1})
client.end_trace(getattr(manual, "trace_id", None) or manual.request_id, outputs={"y": 2})
if hasattr(mlflow, "flush_trace_async_logging"):
    mlflow.flush_trace_async_logging()
known = getattr(manual, "trace_id", None) or manual.request_id
client.set_trace_tag(known, "team", "vision")
client.delete_trace_tag(known, "team")
if not mlflow.__version__.startswith("2."):
    mlflow.log_feedback(trace_id=known, name="good", value=True)
found = client.search_traces([experiment.experiment_id])
table = mlflow.search_traces(experiment_ids=[experiment.experiment_id])
deleted = client.delete_traces(experiment.experiment_id, max_timestamp_millis=4 * 10**12)
gone = mlflow.get_trace(known)
tags = client.get_run(run.info.run_id).data.tags
print("SAID " + json.dumps({
    "answers": answers, "found": len(found), "table": len(table), "deleted": deleted,
    "gone": gone is None, "tag": tags["trimtab.traces"],
}))
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(tmp_path_factory.mktemp("traced") / "data").start()
    yield service
    service.stop()


@pytest.mark.parametrize("requirement", sorted(VARIABLES))
def test_a_program_that_traces_ends_as_it_would_and_is_told_once_a_run(
    requirement: str, service: Service, tmp_path: Path
):
    script = tmp_path / "traced.py"
    script.write_text(PROGRAM)
    said = {"MLFLOW_TRACKING_URI": service.url, "MLFLOW_TRACKING_TOKEN": service.token}
    said |= {"MLFLOW_DISABLE_TELEMETRY": "true", "GIT_PYTHON_REFRESH": "quiet"}
    done = subprocess.run(
        [python_with(requirement), str(script)],
        env=os.environ | said,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("SAID ")]
    assert json.loads(line.removeprefix("SAID ")) == {
        "answers": [x * x for x in range(5)] * 2,
        "found": 0,
        "table": 0,
        "deleted": 0,
        "gone": True,
        "tag": "not kept",
    }
    # Each run, and what was traced outside of them.
    assert done.stderr.count("Trimtab keeps no traces: this one and those") == 3, done.stderr
