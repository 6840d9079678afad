"""Trainings whose truth is known, for `bench.on_a_gpu`; a small one where there is no GPU.

    python bench/gpu_training.py MODE TRUTH.json SECONDS

Modes: `busy` (a ResNet-50 on a batch that is already on the GPU), `synchronised` (the same,
smaller, and waiting for the GPU after each step), `input` (a loader that is too slow), `tiny`
(many small kernels), `phases` (training, evaluation, two checkpoints, training, idleness),
`transformer` (Hugging Face's Trainer), `memory` (until the GPU's is full), `pairs` (turns with and
without the hook). The file says what the script measured by itself.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

HAS_GPU = torch.cuda.is_available()
DEVICE = "cuda" if HAS_GPU else "cpu"
SYNCHRONISED_EVERY = 20
PAIRS, TURN_STEPS = 9, 100 if HAS_GPU else 2


class Truth:
    """The measurements of the script itself: the ends of its steps, its waits, its checkpoints."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.steps: list[float] = []
        self.waits: list[float] = []
        self.checkpoints: list[float] = []
        self.facts: dict[str, Any] = {}

    def write(self) -> None:
        if HAS_GPU:
            self.facts["peak_bytes"] = torch.cuda.max_memory_allocated()
        document = {"steps": self.steps, "waits": self.waits, "checkpoints": self.checkpoints}
        draft = self._path.with_suffix(".draft")
        draft.write_text(json.dumps(document | self.facts))
        draft.rename(self._path)


class Images(Dataset[tuple[torch.Tensor, int]]):
    """Blank images that take some time to read."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(self._seconds)
        return torch.zeros(3, 224, 224), index % 10


def network() -> nn.Module:
    with suppress(ImportError):
        import torchvision

        if HAS_GPU:
            model: nn.Module = torchvision.models.resnet50()
            return model.to(DEVICE)
    layers = (nn.Conv2d(3, 8, 7, 8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(*layers, nn.Linear(8, 1000)).to(DEVICE)


def small_layers() -> nn.Module:
    layers = (nn.Sequential(nn.Linear(64, 64), nn.ReLU()) for _ in range(60))
    return nn.Sequential(*layers, nn.Linear(64, 10)).to(DEVICE)


def gpu_batch(batch: int, *shape: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    batch = batch if HAS_GPU else 2
    images = torch.randn(batch, *shape, device=DEVICE)
    labels = torch.randint(0, 10, (batch,), device=DEVICE)
    while True:
        yield images, labels


def synchronise() -> None:
    if HAS_GPU:
        torch.cuda.synchronize()


class Loop:
    """A usual training loop of one model."""

    def __init__(self, model: nn.Module, truth: Truth, *, synchronised: bool = False) -> None:
        self.model, self._truth = model, truth
        self._every = 1 if synchronised else SYNCHRONISED_EVERY
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        self._loss = nn.CrossEntropyLoss()

    def run(self, batches: Any, seconds: float = 1e9, steps: int = 10**9) -> None:
        until, iterator = time.time() + seconds, iter(batches)
        for number in range(steps):
            asked = time.perf_counter()
            images, labels = next(iterator)
            self._truth.waits.append(time.perf_counter() - asked)
            self.step(images.to(DEVICE, non_blocking=True), labels.to(DEVICE, non_blocking=True))
            if number % self._every == self._every - 1:
                synchronise()
            self._truth.steps.append(time.time())
            if time.time() > until:
                break
        synchronise()

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = self._loss(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def train_busy(truth: Truth, seconds: float) -> None:
    Loop(network(), truth).run(gpu_batch(256, 3, 224, 224), seconds)


def train_synchronised(truth: Truth, seconds: float) -> None:
    """Train synchronised, and also write its truth every second, for a reader meanwhile."""
    loop, batches = Loop(network(), truth, synchronised=True), gpu_batch(64, 3, 224, 224)
    until = time.time() + seconds
    while time.time() < until:
        loop.run(batches, 1.0)
        truth.write()


def slow_input(truth: Truth, seconds: float) -> None:
    loader = DataLoader(Images(0.008), batch_size=64, num_workers=2)
    Loop(network(), truth).run(loader, seconds)


def train_tiny(truth: Truth, seconds: float) -> None:
    Loop(small_layers(), truth).run(gpu_batch(8, 64), seconds)


def phases(truth: Truth, seconds: float) -> None:
    """Spend a third of the time each on training, evaluation with checkpoints, and the rest."""
    loop, batches = Loop(network(), truth), gpu_batch(128, 3, 224, 224)
    loop.run(batches, seconds / 3)
    loop.model.eval()
    until = time.time() + seconds / 6
    with torch.no_grad():
        for images, _ in DataLoader(Images(0.0), batch_size=64, num_workers=2):
            loop.model(images.to(DEVICE))
            if time.time() > until:
                break
    synchronise()
    loop.model.train()
    large = torch.randn(2**27 if HAS_GPU else 2**20, device=DEVICE)
    for _ in range(2):
        _save(truth, {"model": loop.model.state_dict(), "large": large})
    loop.run(batches, seconds / 6)
    time.sleep(seconds / 6)


def _save(truth: Truth, state: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        torch.save(state, Path(folder) / "checkpoint.pt")
        truth.checkpoints.append(time.perf_counter() - began)


def transformer(truth: Truth, seconds: float) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

    class Texts(Dataset[dict[str, torch.Tensor]]):
        def __len__(self) -> int:
            return 4000

        def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
            words = torch.randint(0, 50_000, (512,))
            return {"input_ids": words, "labels": words}

    steps = max(4, int(seconds * 4)) if HAS_GPU else 4
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            max_steps=steps,
            per_device_train_batch_size=8 if HAS_GPU else 1,
            gradient_accumulation_steps=2,
            bf16=HAS_GPU,
            save_steps=steps // 2,
            report_to=[],
        )
        model = GPT2LMHeadModel(GPT2Config(n_layer=12 if HAS_GPU else 1))
        Trainer(model, arguments, train_dataset=Texts()).train()
    truth.facts["optimizer_steps"] = steps


def memory(truth: Truth, seconds: float) -> None:
    """Ends with torch's error, on a GPU."""
    Loop(network(), truth).run(gpu_batch(64, 3, 224, 224), steps=20)
    truth.write()
    kept = []
    while HAS_GPU:
        kept.append(torch.empty(2**32, dtype=torch.uint8, device=DEVICE))


def pairs(truth: Truth, seconds: float) -> None:
    """Turns with and without the hook, in one process: only the hook differs."""
    from torch.optim import optimizer as optimizers

    loop, batches = Loop(small_layers(), truth), gpu_batch(8, 64)
    hooks = optimizers._global_optimizer_post_hooks
    hooked = dict(hooks)
    turns: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * PAIRS + 4):
        with_hook = number % 4 in (0, 3)
        hooks.clear()
        hooks.update(hooked if with_hook else {})
        synchronise()
        began = time.perf_counter()
        for _ in range(TURN_STEPS):
            loop.step(*next(batches))
        synchronise()
        if number >= 4:
            turns[with_hook].append((time.perf_counter() - began) / TURN_STEPS)
    added = [w / wo - 1 for w, wo in zip(turns[True], turns[False], strict=True)]
    truth.facts["added_pct"] = [100 * each for each in added]
    truth.facts["step_ms"] = 1000 * statistics.median(turns[False])


MODES = {
    "busy": train_busy,
    "synchronised": train_synchronised,
    "input": slow_input,
    "tiny": train_tiny,
    "phases": phases,
    "transformer": transformer,
    "memory": memory,
    "pairs": pairs,
}


def main() -> int:
    mode, path, seconds = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    torch.manual_seed(0)
    truth = Truth(path)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        MODES[mode](truth, seconds)
    finally:
        truth.write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
