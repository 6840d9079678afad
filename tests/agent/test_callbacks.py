"""The callbacks in real trainings of the frameworks that are installed beside PyTorch."""

from __future__ import annotations

import subprocess
from functools import cache

import pytest

from tests.agent.torch_python import NEEDS_TORCH, PYTHON

pytestmark = [*NEEDS_TORCH, pytest.mark.long]


@cache
def _has(framework: str) -> bool:
    look = f"import importlib.util as u; raise SystemExit(u.find_spec({framework!r}) is None)"
    return subprocess.run([PYTHON, "-c", look]).returncode == 0


@pytest.fixture
def training(trimtab, online, service, tmp_path):
    def run(framework: str, script: str, extra: dict[str, str] | None = None):
        if not _has(framework):
            pytest.skip(f"no {framework} beside PyTorch")
        quiet = {"HF_HUB_OFFLINE": "1", "KERAS_BACKEND": "torch", "HOME": str(tmp_path)}
        more = quiet | (extra or {})
        done = trimtab(online | more, "run", "--", PYTHON, "-W", "ignore", "-c", script)
        assert done.returncode == 0, done.stderr
        return service

    return run


def _steps(service, phase: str = "train") -> list:
    return [steps for s in service.segments for steps in s.steps if steps.phase == phase]


KERAS = """
import numpy, keras
from trimtab.integrations.keras import TrimtabCallback
model = keras.Sequential([keras.layers.Dense(3)])
model.compile(loss="mse", optimizer="sgd")
x, y = numpy.random.rand(64, 8), numpy.random.rand(64, 3)
model.fit(x, y, epochs=2, batch_size=16, verbose=0, validation_data=(x, y),
          callbacks=[TrimtabCallback(batch_size=16)])
"""


def test_keras_records_steps_epochs_evaluation_and_metrics(training):
    service = training("keras", KERAS)
    (steps,) = _steps(service)
    assert steps.samples == [16] * 8
    assert all(
        w is not None and w <= d for w, d in zip(steps.data_wait_us, steps.duration_us, strict=True)
    )
    assert [e.data["number"] for e in service.events("epoch")] == [0, 1]
    assert [e.data["phase"] for e in service.events("phase_begin")] == ["evaluate"] * 2
    assert {"loss", "val_loss"} <= {e.data["name"] for e in service.events("metric")}


KERAS_LOADER = """
import keras, torch
from torch.utils.data import DataLoader, TensorDataset
from trimtab.integrations.keras import TrimtabCallback
model = keras.Sequential([keras.layers.Dense(3)])
model.compile(loss="mse", optimizer="sgd")
loader = DataLoader(TensorDataset(torch.rand(72, 8), torch.rand(72, 3)), batch_size=16)
model.fit(loader, epochs=2, verbose=0, callbacks=[CALLBACKS])
"""


@pytest.mark.parametrize("callback", ["", "TrimtabCallback()"])
def test_the_batch_at_which_keras_looks_to_build_a_model_is_no_work(training, callback):
    """The `fit` of the torch backend fetches a batch before the first epoch, to know the shapes."""
    service = training("keras", KERAS_LOADER.replace("CALLBACKS", callback))
    (steps,) = _steps(service)
    assert steps.samples == [16, 16, 16, 16, 8] * 2


LIGHTNING = """
import pickle, torch, lightning
from torch.utils.data import DataLoader, TensorDataset
from trimtab.integrations.lightning import TrimtabCallback
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 3)
    def training_step(self, batch):
        loss = self.layer(batch[0]).sum()
        self.log("loss", loss)
        return loss
    def validation_step(self, batch): self.layer(batch[0])
    def configure_optimizers(self): return torch.optim.SGD(self.parameters())
loader = DataLoader(TensorDataset(torch.randn(64, 8)), batch_size=16)
trainer = lightning.Trainer(max_epochs=2, accelerator="cpu", logger=False,
    accumulate_grad_batches=2, enable_progress_bar=False, enable_model_summary=False,
    enable_checkpointing=False,
    callbacks=[pickle.loads(pickle.dumps(TrimtabCallback(batch_size=16)))])
trainer.fit(Model(), loader, loader)
"""


@pytest.mark.parametrize("hooked", [True, False])
def test_lightning_records_the_same_with_and_without_the_hook(training, hooked):
    """The hook is missing where Python is started with -E; the script then installs nothing by
    itself.
    """
    script = LIGHTNING if hooked else "import sys; sys.meta_path.pop(0)\n" + LIGHTNING
    service = training("lightning", script)
    (steps,) = _steps(service)
    assert steps.samples == [32] * 4
    assert [e.data["number"] for e in service.events("epoch")] == [0, 1]
    assert {e.data["phase"] for e in service.events("phase_begin")} == {"evaluate"}
    assert {"loss"} == {e.data["name"] for e in service.events("metric")}
    assert bool(service.events("loader")) == hooked


TRANSFORMERS = """
import torch
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments
from trimtab.integrations.transformers import TrimtabCallback
class Model(PreTrainedModel):
    config_class = PretrainedConfig
    def __init__(self, config):
        super().__init__(config)
        self.layer = torch.nn.Linear(8, 3)
        self.post_init()
    def forward(self, x, labels=None):
        loss = torch.nn.functional.cross_entropy(self.layer(x), labels)
        return {"loss": loss, "logits": self.layer(x)}
data = [{"x": torch.randn(8), "labels": i % 3} for i in range(64)]
arguments = TrainingArguments("out", num_train_epochs=2, per_device_train_batch_size=8,
    gradient_accumulation_steps=2, eval_strategy="epoch", save_strategy="epoch", report_to=[],
    use_cpu=True, disable_tqdm=True, logging_steps=2)
Trainer(Model(PretrainedConfig()), arguments, train_dataset=data, eval_dataset=data,
    callbacks=[TrimtabCallback()]).train()
"""


def test_transformers_records_steps_epochs_evaluation_checkpoints_and_logs(training):
    service = training("transformers", TRANSFORMERS)
    steps = _steps(service)
    assert sum(sum(s.samples) for s in steps) == 128
    assert sum(len(s.duration_us) for s in steps) == 8
    assert [e.data["number"] for e in service.events("epoch")] == [0, 1]
    assert "evaluate" in {e.data["phase"] for e in service.events("phase_begin")}
    assert any(e.data["bytes"] for e in service.events("checkpoint"))
    assert {"loss", "eval_loss"} <= {e.data["name"] for e in service.events("metric")}
