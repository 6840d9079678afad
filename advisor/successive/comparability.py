"""Decides which runs of a job are comparable: the same work, done in the same way.

Each parameter has a role: part of the **work**, a **tuning** of how it is done, or **ignored**. The
role follows from its name, else from the job's own history: what differs on every run says nothing
about the work. People can set it. Dates, times and ids inside a value are left out, so that data
folders of each day are the same data.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WORK, TUNING, IGNORED = "work", "tuning", "ignored"
ROLES = (WORK, TUNING, IGNORED)
BY_NAME, BY_HISTORY, BY_PERSON, USUAL = "name", "history", "person", "usual"
TUNING_WORDS = frozenset(
    ["batch", "batchsize", "bs", "worker", "workers", "prefetch", "pin", "pinned", "persistent",
     "precision", "amp", "fp16", "bf16", "fp8", "tf32", "dtype", "gpu", "gpus", "device", "devices",
     "node", "nodes", "nproc", "process", "processes", "world", "rank", "ranks", "strategy",
     "accumulate", "accumulation", "compile", "instance", "purchase"]
)  # fmt: skip
"""Parameters with one of these words in their name tune how the work is done, not the work."""
IGNORED_WORDS = frozenset(
    ["lr", "learning", "seed", "rng", "momentum", "decay", "wd", "beta", "beta1", "beta2", "eps",
     "epsilon", "dropout", "warmup", "schedule", "scheduler", "patience", "smoothing", "clip",
     "epoch", "epochs", "step", "steps", "name", "id", "uuid", "dir", "directory", "folder", "path",
     "file", "out", "output", "outputs", "results", "log", "logs", "logging", "logdir", "save",
     "resume", "checkpoint", "checkpoints", "ckpt", "cache", "tmp", "wandb", "tag", "tags", "note",
     "notes", "comment", "description", "verbose", "debug", "date", "time", "timestamp", "port",
     "host", "hostname", "user", "url", "project", "experiment", "trial", "attempt", "runid",
     "commit", "version"]
)  # fmt: skip
"""Parameters with one of these words change neither the work nor how it is done."""
WORK_WORDS = frozenset(["data", "dataset", "datasets", "corpus", "model", "arch", "architecture",
                        "task"])  # fmt: skip
"""Parameters with one of these words always define the work: `data_dir`, `model_name`."""
STRUCTURE_WORDS = frozenset(
    ["hidden", "layer", "layers", "depth", "width", "dim", "dims", "size", "heads", "blocks",
     "channels", "filters", "units", "embed", "embedding", "vocab", "resolution", "image", "crop",
     "patch", "length", "seq", "sequence", "context", "backbone", "encoder", "decoder"]
)  # fmt: skip
"""The words of parameters that change what a sample costs, so that history never makes them
ignored."""
LEARNT_FROM = 60
"""The newest runs of a job that tell which parameters differ on every run."""
LEAST_RUNS, LEAST_ONCE = 3, 0.6
"""A parameter is ignored if at least three runs have it, and this share of the values occurs
once."""
MARK = "#"
_SECONDS = re.compile(r"(?<!\d)1[5-9]\d{8}(?:\d{3})?(?!\d)")
"""The seconds since 1970. In text only: a number may be so many tokens."""
_VARYING = re.compile(
    r"""
    [0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}        # a UUID
    | (?<!\d)(?:19|20)\d\d([-_./]?)(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])(?!\d)   # a day
    | (?<=\#)[T_\- ]?[0-2]\d([-_:]?)[0-5]\d(?:\2[0-5]\d)?(?:\.\d+)?Z?(?!\d)          # its time
    """,
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True)
class Role:
    """`why`: by its name, by the job's history, by a person, or the usual one."""

    role: str
    why: str


def roles(
    history: Sequence[Mapping[str, Any]], chosen: Mapping[str, str] | None = None
) -> dict[str, Role]:
    """Return the role of each parameter of a job.

    Args:
        history: the parameters of its newest runs, in any order.
        chosen: the roles that people set.
    """
    names = sorted({name for parameters in history for name in parameters} | {*(chosen or {})})
    return {name: _role(name, history, chosen or {}) for name in names}


def workload_key(
    workload: Mapping[str, Any], parameters: Mapping[str, Any], known: Mapping[str, Role]
) -> str:
    """Return the key of runs that do the same work per sample: entry point, dataset, model, and the
    parameters that are part of the work.
    """
    own = {n: v for n, v in parameters.items() if _of(n, known) == WORK}
    return _digest({"workload": workload, "parameters": own})


def configuration_key(configuration: Mapping[str, Any], known: Mapping[str, Role]) -> str:
    """Return the key of runs that do the work in the same way: machines, purchase option, and the
    parameters that tune it.

    Args:
        configuration: machines and parameters together, as stored with a run.
    """
    return _digest({n: v for n, v in configuration.items() if _of(n, known) == TUNING})


def differences(
    one: Mapping[str, Any], other: Mapping[str, Any], known: Mapping[str, Role]
) -> dict[str, tuple[Any, Any]]:
    """Return field -> its two values, of those that keep two runs from being compared.

    Args:
        one, other: workload, machines and parameters together.
    """
    names = sorted({*one, *other})
    pairs = {name: (one.get(name), other.get(name)) for name in names}
    return {
        name: pair
        for name, pair in pairs.items()
        if _of(name, known) != IGNORED and _plain(pair[0]) != _plain(pair[1])
    }


def strip_dates(value: Any) -> Any:
    """Return the value without days, times and ids: those of equal work differ."""
    if isinstance(value, Mapping):
        return {name: strip_dates(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [strip_dates(each) for each in value]
    if isinstance(value, bool) or not isinstance(value, str | int):
        return value
    text = _SECONDS.sub(MARK, value) if isinstance(value, str) else str(value)
    # Twice: a time is one only after its day.
    text = _VARYING.sub(MARK, _VARYING.sub(MARK, text))
    return text if MARK in text else value


def _of(name: str, known: Mapping[str, Role]) -> str:
    return known[name].role if name in known else _by_name(name).role


def _role(name: str, history: Sequence[Mapping[str, Any]], chosen: Mapping[str, str]) -> Role:
    if name in chosen:
        return Role(chosen[name], BY_PERSON)
    by_name = _by_name(name)
    is_open = by_name.why == USUAL and not words(name) & STRUCTURE_WORDS
    return Role(IGNORED, BY_HISTORY) if is_open and _differs(name, history) else by_name


def _by_name(name: str) -> Role:
    own = words(name)
    if own & TUNING_WORDS:
        return Role(TUNING, BY_NAME)
    if own & WORK_WORDS:
        return Role(WORK, BY_NAME)
    return Role(IGNORED, BY_NAME) if own & IGNORED_WORDS else Role(WORK, USUAL)


def _differs(name: str, history: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether nearly every run has a value of its own."""
    values = [_plain(parameters[name]) for parameters in history if name in parameters]
    once = sum(count == 1 for count in Counter(values).values())
    return len(values) >= LEAST_RUNS and once >= LEAST_ONCE * len(values)


def words(name: str) -> set[str]:
    """Return the words of a name: `--num-workers` and `numWorkers` are `num` and `workers`."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
    return set(re.split(r"[^a-z0-9]+", apart)) - {""}


def _plain(value: Any) -> str:
    return json.dumps(strip_dates(value), sort_keys=True, default=str)


def _digest(document: Mapping[str, Any]) -> str:
    return hashlib.sha256(_plain(document).encode()).hexdigest()[:16]
