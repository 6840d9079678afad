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
"""Parameters with one of these words in their name tune how the work is done, not the work."""
NEUTRAL = frozenset(
    ["lr", "learning", "seed", "momentum", "decay", "beta", "beta1", "beta2", "eps", "epsilon",
     "warmup", "schedule", "scheduler", "patience", "epoch", "epochs", "step", "steps", "name",
     "id", "dir", "directory", "folder", "path", "file", "out", "output", "log", "logs", "logging",
     "logdir", "save", "resume", "checkpoint", "checkpoints", "wandb", "tag", "tags", "note",
     "notes", "verbose", "debug", "date", "time", "port", "host", "url", "project", "experiment",
     "commit", "version"]
)  # fmt: skip
"""Parameters with one of these words change neither the work nor how it is done."""
WORK = frozenset(["data", "dataset", "datasets", "corpus", "model", "arch", "architecture", "task"])
"""Parameters with one of these words always define the work: `data_dir`, `model_name`."""


def workload_key(workload: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    """The key of runs that do the same work per sample: entry point, dataset, model, and parameters
    that are neither tuning knobs nor bookkeeping."""
    own = {name: v for name, v in parameters.items() if _is_work(_words(name))}
    return _digest({"workload": workload, "parameters": own})


def configuration_key(configuration: Mapping[str, Any]) -> str:
    """The key of runs that do the work in the same way: machines, purchase option, batch, loader,
    precision.

    Args:
        configuration: machines and parameters together, as stored with a run.
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
