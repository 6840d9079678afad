"""Keys of workload and configuration: runs are compared if both are equal."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

CONFIGURATION = frozenset(
    ["batch", "batchsize", "bs", "worker", "workers", "prefetch", "pin", "pinned", "persistent",
     "precision", "amp", "fp16", "bf16", "fp8", "tf32", "dtype", "gpu", "gpus", "device", "devices",
     "node", "nodes", "nproc", "process", "processes", "world", "rank", "ranks", "strategy",
     "accumulate", "accumulation", "compile", "instance", "purchase"]
)  # fmt: skip
"""A parameter with one of these words in its name is how the work is done: tuning it is no other
work."""
NEUTRAL = frozenset(
    ["lr", "learning", "seed", "momentum", "decay", "beta", "beta1", "beta2", "eps", "epsilon",
     "warmup", "schedule", "scheduler", "patience", "epoch", "epochs", "step", "steps", "name",
     "id", "dir", "directory", "folder", "path", "file", "out", "output", "log", "logs", "logging",
     "logdir", "save", "resume", "checkpoint", "checkpoints", "wandb", "tag", "tags", "note",
     "notes", "verbose", "debug", "date", "time", "port", "host", "url", "project", "experiment",
     "commit", "version"]
)  # fmt: skip
"""A parameter with one of these changes neither the work of a sample nor how it is done."""
WORK = frozenset(["data", "dataset", "datasets", "corpus", "model", "arch", "architecture", "task"])
"""What is worked on, whatever else is in the name: `data_dir`, `model_name`, `dataset_version`."""


def workload_key(workload: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    """Of runs of a job that do the same work a sample: entry point, dataset, model, and parameters
    that are neither tuning knobs nor bookkeeping."""
    own = {name: v for name, v in parameters.items() if _is_work(_words(name))}
    return _digest({"workload": workload, "parameters": own})


def configuration_key(configuration: Mapping[str, Any]) -> str:
    """Of runs that do it in the same way: machines, purchase option, batch, loader, precision.

    Args:
        configuration: machines and parameters together, as a run keeps them.
    """
    return _digest({name: v for name, v in configuration.items() if _words(name) & CONFIGURATION})


def _is_work(words: set[str]) -> bool:
    if words & CONFIGURATION:
        return False
    return bool(words & WORK) or not words & NEUTRAL


def _words(name: str) -> set[str]:
    """`--num-workers` and `numWorkers` are `num` and `workers`."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return set(re.split(r"[^a-z0-9]+", apart)) - {""}


def _digest(document: Mapping[str, Any]) -> str:
    text = json.dumps(document, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
