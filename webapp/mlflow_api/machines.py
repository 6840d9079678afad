"""Which machine a run is on: from its tags, else that of its parent or of the agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from trimtab.wire import LIMITS, Gpu, NodeFacts

from advisor.pricing.catalogue import catalogue
from webapp.accounts.models import Workspace
from webapp.runs.history import facts
from webapp.runs.models import Node

PREFIX = "trimtab."
_TEXTS = (
    "machine_id",
    "provider",
    "service",
    "region",
    "zone",
    "instance_type",
    "purchase_option",
)
PARENT = "mlflow.parentRunId"
_UNKNOWN_GPU = "unknown model"


def machine(
    workspace: Workspace, run_id: UUID, tags: Mapping[str, str], agent: Mapping[str, Any]
) -> NodeFacts:
    """What is known of the machine of a new run.

    Args:
        agent: the session that the program runs in, of another run; empty: none.
    """
    said = {name: tags.get(PREFIX + name, "")[: LIMITS.name_chars] for name in _TEXTS}
    known = _of_agent(workspace, agent) if agent else _of_parent(workspace, tags)
    known = known or NodeFacts(f"mlflow-{run_id.hex}")
    if tags.get(f"{PREFIX}owns_machine", "").lower() in ("true", "1", "yes"):
        known = replace(known, owns_machine=True)
    return _of_type(replace(known, **{name: text for name, text in said.items() if text}))  # type: ignore[arg-type]


def with_gpus(known: NodeFacts, count: int) -> NodeFacts:
    """As many GPUs as system metrics are of, if the instance type doesn't tell."""
    if len(known.gpus) >= count:
        return known
    return replace(known, gpus=[Gpu(_UNKNOWN_GPU, 0)] * count)


def _of_parent(workspace: Workspace, tags: Mapping[str, Any]) -> NodeFacts | None:
    """The machine of the parent: a nested run is on the same one."""
    parent = tags.get(PARENT, "")
    try:
        parent_id = UUID(hex=parent)
    except ValueError:
        return None
    nodes = Node.objects.filter(attempt__run=parent_id, attempt__run__workspace=workspace)
    node = nodes.order_by("-attempt__number", "number").first()
    return facts(node) if node else None


def _of_agent(workspace: Workspace, agent: Mapping[str, Any]) -> NodeFacts:
    """The machine that the agent measures; its facts, as far as they have arrived."""
    nodes = Node.objects.filter(
        attempt__run=UUID(agent["run"]),
        attempt__run__workspace=workspace,
        machine_id=agent["machine"],
    )
    node = nodes.order_by("-attempt__number").first()
    return facts(node) if node else NodeFacts(agent["machine"])


def _of_type(known: NodeFacts) -> NodeFacts:
    """With the hardware that the instance type has."""
    kind = catalogue().get(known.instance_type)
    if kind is None or known.gpus:
        return known
    return replace(
        known,
        vcpus=known.vcpus or kind.vcpus,
        memory_bytes=known.memory_bytes or kind.memory_bytes,
        gpus=[Gpu(kind.gpu_model, kind.gpu_memory_bytes)] * kind.gpu_count,
    )
