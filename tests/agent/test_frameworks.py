"""Parts of real trainings, unchanged and with our callbacks, against what the script measured.

Each script sleeps in its training step, loader, evaluation and checkpoint and adds up for how long.
It then sleeps at its end, which is no part of the training. Trainer's own work in a step and in a
checkpoint takes long enough to be measured with them.
"""

from __future__ import annotations

import json
import subprocess
from functools import cache

import pytest

from tests.agent.torch_python import NEEDS_TORCH, PYTHON

pytestmark = [*NEEDS_TORCH, pytest.mark.long]

TOLERANCE = 0.02
"""The tolerance, as a share of the whole training."""

SLEEPS = """
import atexit, json, os, time
slept = dict.fromkeys(("step", "wait", "evaluate", "checkpoint"), 0.0)
def work(part, seconds):
    began = time.perf_counter()
    time.sleep(seconds)
    slept[part] += time.perf_counter() - began
atexit.register(lambda: open("slept.json", "w").write(json.dumps(slept)))
"""
TORCH = (
    SLEEPS
    + """
import torch
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)
class Rows(Dataset):
    def __init__(self, count, part, seconds):
        self.count, self.part, self.seconds = count, part, seconds
    def __len__(self): return self.count
    def __getitem__(self, i):
        work(self.part, self.seconds)
        return torch.ones(8), torch.ones(3)
train = DataLoader(Rows(40, "wait", 0.015), batch_size=4)
held = DataLoader(Rows(12, "evaluate", 0.015), batch_size=4)
layer = torch.nn.Linear(8, 3)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.01)
optimizer.zero_grad(); layer(torch.ones(8)).sum().backward()
"""
)
PLAIN = """
for epoch in range(3):
    layer.train()
    for x, y in train:
        work("step", 0.12)
        layer(x).sum().backward(); optimizer.step()
    layer.eval()
    EVALUATE
    layer.training = True
    torch.save({"state": layer.state_dict(), "slow": Slow()}, "model.pt")
work("tail", 2)
"""
SLOW_STATE = """
slept["tail"] = 0
class Slow:
    def __reduce__(self):
        work("checkpoint", 0.4)
        return (dict, ())
"""
EVALUATIONS = {
    "to the end": """
    with torch.no_grad():
        for x, y in held: work("evaluate", 0.15)
""",
    "by its length": """
    with torch.no_grad():
        for number, (x, y) in enumerate(held):
            work("evaluate", 0.15)
            if number == 1: break
""",
    "in a function": """
    @torch.no_grad()
    def evaluate():
        batches = iter(held)
        for _ in range(2):
            next(batches)
            work("evaluate", 0.2)
    evaluate()
""",
}
LIGHTNING = """
import lightning
CALLBACK
class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = layer
    def training_step(self, batch):
        work("step", 0.12)
        return self.layer(batch[0]).sum()
    def validation_step(self, batch): work("evaluate", 0.15)
    def on_save_checkpoint(self, checkpoint): work("checkpoint", 0.4)
    def configure_optimizers(self): return optimizer
trainer = lightning.Trainer(max_epochs=3, accelerator="cpu", logger=False, callbacks=CALLBACKS,
    enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Model(), train, held)
slept["tail"] = 0
work("tail", 2)
"""
TRANSFORMERS = """
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments
CALLBACK
class Model(PreTrainedModel):
    config_class = PretrainedConfig
    def __init__(self, config):
        super().__init__(config)
        self.layer = layer
        self.post_init()
    def forward(self, x, y):
        if self.training: time.sleep(0.25)
        else: work("evaluate", 0.25)
        return {"loss": self.layer(x).sum(), "logits": self.layer(x)}
def timed(part, method):
    def call(*arguments, **named):
        began = time.perf_counter()
        try: return method(*arguments, **named)
        finally: slept[part] += time.perf_counter() - began
    return call
class Saved(Trainer):
    def save_model(self, *arguments, **named):
        time.sleep(0.4)
        super().save_model(*arguments, **named)
    def training_step(self, *arguments): return timed("step", super().training_step)(*arguments)
    def _save_checkpoint(self, *arguments):
        timed("checkpoint", super()._save_checkpoint)(*arguments)
def collate(rows): return {"x": rows[0][0][None], "y": rows[0][1][None]}
arguments = TrainingArguments("out", num_train_epochs=3, per_device_train_batch_size=4,
    per_device_eval_batch_size=4, eval_strategy="epoch", save_strategy="epoch", report_to=[],
    use_cpu=True, disable_tqdm=True)
Saved(Model(PretrainedConfig()), arguments, train_dataset=train.dataset, eval_dataset=held.dataset,
    data_collator=collate, callbacks=CALLBACKS).train()
slept["tail"] = 0
work("tail", 2)
"""
ACCELERATE = """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
layer, optimizer, train, held = accelerator.prepare(layer, optimizer, train, held)
for epoch in range(3):
    layer.train()
    for x, y in train:
        work("step", 0.12)
        accelerator.backward(layer(x).sum()); optimizer.step()
    layer.eval()
    with torch.no_grad():
        for x, y in held: work("evaluate", 0.15)
    accelerator.register_save_state_pre_hook(lambda *_: work("checkpoint", 0.4)) \
        if epoch == 0 else None
    accelerator.save_state("state")
slept["tail"] = 0
work("tail", 2)
"""
KERAS = """
import numpy, keras
CALLBACK
class Rows(keras.utils.PyDataset):
    def __init__(self, batches, part):
        super().__init__()
        self.batches, self.part = batches, part
    def __len__(self): return self.batches
    def __getitem__(self, i):
        if counts: work(self.part, 0.06)
        return numpy.ones((4, 8)), numpy.ones((4, 3))
counts = []
class Slow(keras.callbacks.Callback):
    def on_train_begin(self, logs=None): counts.append(1)
    def on_train_batch_end(self, batch, logs=None): work("step", 0.12)
    def on_test_batch_end(self, batch, logs=None): work("evaluate", 0.15)
model = keras.Sequential([keras.layers.Input((8,)), keras.layers.Dense(3)])
model.compile(loss="mse", optimizer="sgd")
model.fit(Rows(10, "wait"), epochs=3, verbose=0, validation_data=Rows(3, "evaluate"),
    callbacks=[Slow(), *CALLBACKS])
slept["tail"] = 0
work("tail", 2)
"""


@cache
def _has(framework: str) -> bool:
    look = f"import importlib.util as u; raise SystemExit(u.find_spec({framework!r}) is None)"
    return subprocess.run([PYTHON, "-c", look]).returncode == 0


@pytest.fixture
def parts(trimtab, online, service, tmp_path):
    """Runs a script. What was recorded and what the script slept, in seconds by part."""

    def run(framework: str, script: str, backend: str = "torch"):
        if not _has(framework):
            pytest.skip(f"no {framework} beside PyTorch")
        quiet = {"HF_HUB_OFFLINE": "1", "KERAS_BACKEND": backend, "HOME": str(tmp_path)}
        done = trimtab(online | quiet, "run", "--", PYTHON, "-W", "ignore", "-c", script)
        assert done.returncode == 0, done.stderr
        slept = json.loads((tmp_path / "place" / "slept.json").read_text())
        slept.pop("tail", None)
        return _recorded(service), slept

    return run


def _recorded(service) -> dict[str, float]:
    blocks = [steps for s in service.segments for steps in s.steps if steps.phase == "train"]
    waits = sum(sum(w or 0 for w in block.data_wait_us) for block in blocks) / 1e6
    whole = sum(sum(block.duration_us) for block in blocks) / 1e6
    saved, evaluated = _spans(service, "checkpoint"), _spans(service, "evaluate")
    return {"step": whole - waits, "wait": waits, "evaluate": evaluated, "checkpoint": saved}


def _spans(service, phase: str) -> float:
    """Return the seconds in a phase; it must have ended as often as it began."""
    edges = [
        (segment.start_ms + event.time_ms, 1 if event.kind == "phase_begin" else -1)
        for segment in service.segments
        for event in segment.events
        if event.kind in ("phase_begin", "phase_end") and event.data["phase"] == phase
    ]
    assert [sign for _, sign in sorted(edges, key=lambda edge: edge[0])] == [1, -1] * (
        len(edges) // 2
    )
    return -sum(at * sign for at, sign in edges) / 1000


def _agree(found: tuple[dict[str, float], dict[str, float]]) -> None:
    recorded, slept = found
    allowed = TOLERANCE * sum(slept.values())
    assert recorded == pytest.approx(slept, abs=allowed), (recorded, slept, allowed)


@pytest.mark.parametrize("way", EVALUATIONS)
def test_a_plain_loop_has_its_parts_however_it_ends_its_evaluation(parts, way):
    body = PLAIN.replace("EVALUATE", EVALUATIONS[way].strip())
    _agree(parts("torch", TORCH + SLOW_STATE + body))


def _called(script: str, framework: str, with_callback: bool) -> str:
    load = f"from trimtab.integrations.{framework} import TrimtabCallback"
    return script.replace("CALLBACKS", "[TrimtabCallback()]" if with_callback else "[]").replace(
        "CALLBACK", load if with_callback else ""
    )


WITH_CALLBACK = pytest.mark.parametrize("with_callback", [False, True], ids=["unchanged", "called"])


@WITH_CALLBACK
def test_lightning_has_its_parts(parts, with_callback):
    _agree(parts("lightning", TORCH + _called(LIGHTNING, "lightning", with_callback)))


def test_lightning_has_its_parts_by_the_callback_alone_but_checkpoints(parts):
    """No hook runs where Python is started with -E, and a callback isn't asked about saving."""
    unhooked = "import sys; sys.meta_path.pop(0)\n" + TORCH
    recorded, slept = parts("lightning", unhooked + _called(LIGHTNING, "lightning", True))
    _agree((recorded, slept | {"checkpoint": 0.0}))


@WITH_CALLBACK
def test_transformers_has_its_parts(parts, with_callback):
    _agree(parts("transformers", TORCH + _called(TRANSFORMERS, "transformers", with_callback)))


def test_accelerate_has_its_parts(parts):
    _agree(parts("accelerate", TORCH + ACCELERATE))


@WITH_CALLBACK
def test_keras_has_its_parts(parts, with_callback):
    _agree(parts("keras", SLEEPS + _called(KERAS, "keras", with_callback)))
