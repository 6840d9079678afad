"""The declaration of a run and its node, sent at the start and again when more is known."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

from trimtab.wire.document import read_document, write_document
from trimtab.wire.limits import (
    LIMITS,
    Limits,
    WireError,
    integer,
    is_scalar,
    is_storable,
    text,
)
from trimtab.wire.segment import VERSION


@dataclass
class Gpu:
    """One GPU of the node, in the order of its `gpuN` series."""

    model: str
    memory_bytes: int
    uuid: str = ""
    allocated: bool = True


@dataclass
class NodeFacts:
    """One machine: its type, its hardware, and how much of it is allocated to the run."""

    machine_id: str
    hostname: str = ""
    provider: str = ""
    service: str = ""
    region: str = ""
    zone: str = ""
    instance_type: str = ""
    purchase_option: str = "on_demand"
    owns_machine: bool = False
    instance_started_at_ns: int = 0
    """The machine's start, according to its cloud; 0 if unknown."""
    vcpus: int = 0
    effective_cpus: float = 0.0
    """The cores this run may use: min(affinity, cgroup quota, cpuset)."""
    memory_bytes: int = 0
    effective_memory_bytes: int = 0
    cpu_model: str = ""
    gpus: list[Gpu] = field(default_factory=list)


@dataclass
class Probe:
    """A run that measures some steps on another machine and is then stopped."""

    steps: int
    warmup_steps: int | None = None
    """Steps before those; None for as many as the loop needs to reach its level."""
    gpus: int | None = None
    """The number of GPUs that it was limited to; None if not limited."""


@dataclass
class Declaration:
    """The run as its agent knows it. Sending it again updates what it names."""

    run_id: UUID
    job: str
    attempt: int
    session_id: UUID
    node: NodeFacts
    owner: str = ""
    tags: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)
    git_commit: str = ""
    git_branch: str = ""
    git_dirty: bool = False
    agent_version: str = ""
    workload: dict[str, str] = field(default_factory=dict)
    """The properties that must match for two runs to do the same work: entry point, dataset, model,
    ..."""
    allow_stop: bool = False
    """True if a rule of the service may end the command."""
    expired_uploads: int = 0
    """Refused uploads of this session that the agent deleted unsent."""
    probe: Probe | None = None
    """The probe; None for an ordinary run."""
    training: str = ""
    """The key of the training that this run is a part of; empty if nobody named it."""
    requeue: str = ""
    """The scheduler's name for the job that it starts again after an interruption, with the
    scheduler's own name: `slurm/cluster/1234`; empty if unknown."""


def encode_declaration(declaration: Declaration) -> bytes:
    document = asdict(declaration)
    document["version"] = VERSION
    document["run_id"] = str(declaration.run_id)
    document["session_id"] = str(declaration.session_id)
    return write_document(document)


def decode_declaration(body: bytes, limits: Limits = LIMITS) -> Declaration:
    """Decode a declaration and check its limits. Ignores unknown fields of newer agents.

    Raises:
        WireError: a field that is missing or out of bounds.
    """
    document = read_document(body, limits)
    return Declaration(
        run_id=_uuid(document, "run_id"),
        job=text(document, "job", limits),
        attempt=integer(document, "attempt", high=1_000_000, default=0),
        session_id=_uuid(document, "session_id"),
        node=_node(_mapping(document, "node"), limits),
        owner=text(document, "owner", limits, default=""),
        tags=_texts(document, "tags", limits),
        parameters=_scalars(document, "parameters", limits),
        command=_command(document, limits),
        git_commit=text(document, "git_commit", limits, default=""),
        git_branch=text(document, "git_branch", limits, default=""),
        git_dirty=bool(document.get("git_dirty")),
        agent_version=text(document, "agent_version", limits, default=""),
        workload=_texts(document, "workload", limits),
        allow_stop=document.get("allow_stop") is True,
        expired_uploads=integer(document, "expired_uploads", high=10**9, default=0),
        probe=_probe(document),
        training=text(document, "training", limits, default=""),
        requeue=text(document, "requeue", limits, default=""),
    )


def _probe(document: dict[str, Any]) -> Probe | None:
    said = document.get("probe")
    if said is None:
        return None
    if not isinstance(said, dict):
        raise WireError("probe", "not an object", "Send steps, warmup_steps and gpus.")
    limited = [name for name in ("warmup_steps", "gpus") if said.get(name) is not None]
    return Probe(
        steps=integer(said, "steps", low=1, high=10**6),
        **{name: integer(said, name, high=10**6) for name in limited},
    )


def _node(document: dict[str, Any], limits: Limits) -> NodeFacts:
    names = ("hostname", "provider", "service", "region", "zone", "instance_type", "cpu_model")
    texts = {name: text(document, name, limits, default="") for name in names}
    gpus = document.get("gpus", [])
    if not isinstance(gpus, list) or len(gpus) > 64:
        raise WireError("node.gpus", "not a list of at most 64", "List the node's GPUs.")
    return NodeFacts(
        machine_id=text(document, "machine_id", limits),
        purchase_option=text(document, "purchase_option", limits, default="on_demand"),
        owns_machine=bool(document.get("owns_machine")),
        instance_started_at_ns=integer(document, "instance_started_at_ns", default=0),
        vcpus=integer(document, "vcpus", high=100_000, default=0),
        effective_cpus=_positive(document, "effective_cpus"),
        memory_bytes=integer(document, "memory_bytes", default=0),
        effective_memory_bytes=integer(document, "effective_memory_bytes", default=0),
        gpus=[_gpu(gpu, limits) for gpu in gpus],
        **texts,
    )


def _gpu(document: Any, limits: Limits) -> Gpu:
    if not isinstance(document, dict):
        raise WireError("node.gpus", "an entry is not an object", "Send model and memory_bytes.")
    return Gpu(
        model=text(document, "model", limits),
        memory_bytes=integer(document, "memory_bytes", default=0),
        uuid=text(document, "uuid", limits, default=""),
        allocated=bool(document.get("allocated", True)),
    )


def _uuid(document: dict[str, Any], field_name: str) -> UUID:
    try:
        return UUID(document[field_name])
    except (KeyError, ValueError, TypeError, AttributeError):
        raise WireError(field_name, "missing or not a UUID", "Send a UUID.") from None


def _mapping(document: dict[str, Any], field_name: str) -> dict[str, Any]:
    value = document.get(field_name, {})
    if not isinstance(value, dict) or len(value) > 500:
        raise WireError(field_name, "not an object of at most 500 entries", "Send an object.")
    return value


def _texts(document: dict[str, Any], field_name: str, limits: Limits) -> dict[str, str]:
    texts = _mapping(document, field_name)
    return {_key(field_name, k, limits): text(texts, k, limits, default="") for k in texts}


def _scalars(document: dict[str, Any], field_name: str, limits: Limits) -> dict[str, Any]:
    scalars = _mapping(document, field_name)
    for key, value in scalars.items():
        _key(field_name, key, limits)
        if not is_scalar(value, limits) or _is_not_finite(value):
            raise WireError(
                f"{field_name}.{key}"[:80],
                "not a short scalar",
                "Send text, a finite number, a boolean or null.",
            )
    return scalars


def _is_not_finite(value: Any) -> bool:
    """Return whether the value is a number that JSON doesn't have, and databases refuse."""
    return isinstance(value, float) and not math.isfinite(value)


def _key(field_name: str, key: str, limits: Limits) -> str:
    if not 0 < len(key) <= limits.name_chars or not is_storable(key):
        problem = f"a name that is empty, over {limits.name_chars} characters or not plain text"
        raise WireError(field_name, problem, "Shorten it.")
    return key


def _command(document: dict[str, Any], limits: Limits) -> list[str]:
    command = document.get("command", [])
    if not isinstance(command, list) or not all(
        isinstance(word, str) and is_storable(word) for word in command
    ):
        raise WireError("command", "not a list of text", "Send the words of the command.")
    return [word[: limits.text_chars] for word in command[:500]]


def _positive(document: dict[str, Any], field_name: str) -> float:
    value = document.get(field_name, 0)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1e6:
        raise WireError(f"node.{field_name}", "not a number from 0", "Send a number.")
    return float(value)
