"""Programs around MLflow's own clients: PyTorch Lightning, radT, and what isn't supported."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.agent.torch_python import NEEDS_TORCH
from tests.agent.torch_python import PYTHON as TORCH_PYTHON
from tests.mlflow.pythons import VARIABLES, python_with, python_with_radt
from tests.mlflow.test_real_clients import judged, service  # noqa: F401 - a fixture
from tests.running_service import Service

pytestmark = [pytest.mark.long, pytest.mark.processes, pytest.mark.timeout(900)]
LIGHTNING = """
import json
import lightning, mlflow, torch
from torch.utils.data import DataLoader, TensorDataset

class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, number):
        loss = torch.nn.functional.mse_loss(self.layer(batch[0]), batch[1])
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

mlflow.set_experiment("lightning")
mlflow.pytorch.autolog()
data = DataLoader(TensorDataset(torch.randn(64, 8), torch.randn(64, 1)), batch_size=8)
quiet = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False)
lightning.Trainer(max_epochs=2, accelerator="cpu", log_every_n_steps=1, **quiet).fit(Net(), data)
run = mlflow.last_active_run()
listed = mlflow.MlflowClient().list_artifacts(run.info.run_id)
said = {"run": run.info.run_id, "metrics": run.data.metrics, "params": run.data.params}
print("SAID " + json.dumps(said | {"files": [each.path for each in listed]}))
"""
RADT = """
import radt, time
for epoch in range(3):
    radt.log_metric("loss", 1 / (epoch + 1), epoch)
    time.sleep(0.5)
print("SAID {}")
"""
UNSUPPORTED = """
import json
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

client, said = MlflowClient(), []
for call in (
    lambda: client.create_registered_model("resnet"),
    lambda: client.search_model_versions("name = 'resnet'"),
    lambda: client.create_model_version("resnet", "mlflow-artifacts:/1/x"),
    lambda: client.get_registered_model("resnet"),
):
    try:
        call()
    except MlflowException as error:
        said.append([error.error_code, str(error)])
print("SAID " + json.dumps(said))
"""


def run(service: Service, folder: Path, *command: str, **variables: str) -> Any:  # noqa: F811
    """Run a program, and return what it says in the end."""
    said = {
        "MLFLOW_TRACKING_URI": service.url,
        "MLFLOW_TRACKING_TOKEN": service.token,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "GIT_PYTHON_REFRESH": "quiet",
    }
    done = subprocess.run(
        command,
        env=os.environ | said | variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
    )
    lines = [line.partition("SAID ")[2] for line in done.stdout.splitlines() if "SAID " in line]
    assert lines, done.stdout + done.stderr
    assert "Logging model metadata to the tracking server has failed" not in done.stderr
    return json.loads(lines[-1].removesuffix("\x1b[0m"))


def program(folder: Path, text: str) -> str:
    (folder / "train.py").write_text(text)
    return "train.py"


def torch_packages() -> str:
    """Return the folder of PyTorch's packages, if Lightning is among them."""
    asked = "import lightning, torch, pathlib; print(pathlib.Path(torch.__file__).parents[1])"
    found = subprocess.run([TORCH_PYTHON, "-c", asked], capture_output=True, text=True)
    if found.returncode:
        pytest.skip("no Lightning beside PyTorch")
    return found.stdout.splitlines()[-1]


@pytest.mark.torch
@NEEDS_TORCH[1]
@pytest.mark.parametrize("requirement", sorted(VARIABLES))
def test_lightning_is_logged_by_autolog(service, tmp_path, requirement):  # noqa: F811
    packages = torch_packages()
    command = [python_with(requirement), program(tmp_path, LIGHTNING)]
    said = run(service, tmp_path, *command, PYTHONPATH=packages)
    assert said["params"]["optimizer_name"] == "SGD"
    assert said["metrics"]["train_loss"] > 0
    assert "model_summary.txt" in said["files"]
    found = judged(service, said["run"])
    assert (found["job"]["name"], found["state"]) == ("lightning", "finished")
    assert found["metrics"]["train_loss"] == pytest.approx(said["metrics"]["train_loss"])


def test_radt_s_command_line_starts_a_run(service, tmp_path):  # noqa: F811
    python = Path(python_with_radt())
    words = ["-e", "0", "-w", "1", "-d", "0", "-l", "free", program(tmp_path, RADT)]
    path = f"{python.parent}:{os.environ['PATH']}"
    run(service, tmp_path, str(python.with_name("radt")), *words, PATH=path)
    (found,) = _runs_of(service, "0")
    assert found["info"]["status"] == "FINISHED"
    metrics = {each["key"]: each["value"] for each in found["data"]["metrics"]}
    assert metrics["loss"] == pytest.approx(1 / 3)
    assert metrics["system/Free - Mem Total GB"] > 0
    assert judged(service, found["info"]["run_id"])["state"] == "finished"


def _runs_of(service: Service, experiment: str) -> list[dict[str, Any]]:  # noqa: F811
    headers = {"Authorization": f"Bearer {service.token}"}
    url = f"{service.url}/api/2.0/mlflow/runs/search"
    answer = httpx.post(url, headers=headers, json={"experiment_ids": [experiment]})
    return list(answer.json()["runs"])


@pytest.mark.parametrize("requirement", sorted(VARIABLES))
def test_what_is_not_supported_is_an_error_of_mlflow(service, tmp_path, requirement):  # noqa: F811
    said = run(service, tmp_path, python_with(requirement), program(tmp_path, UNSUPPORTED))
    assert [code for code, _ in said] == 4 * ["ENDPOINT_NOT_FOUND"]
    assert not any("<" in text for _, text in said)
