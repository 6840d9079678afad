"""Finds the machine of a run: from its tags, or else that of its parent or of the agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from trimtab.wire import LIMITS, Gpu, NodeFacts

from advisor.mlflow_names import MACHINE_TAGS, OUR_TAGS
from advisor.pricing.catalogue import catalogue
from webapp.accounts.models import Workspace
from webapp.runs.history import facts
from webapp.runs.models import Node

_OWNS = "owns_machine"
PARENT = "mlflow.parentRunId"
_UNKNOWN_GPU = "unknown model"


def machine_of_new_run(
    workspace: Workspace, run_id: UUID, tags: Mapping[str, str], agent: Mapping[str, Any]
) -> NodeFacts:
    """Return what is known of the machine of a new run.

    Args:
        agent: the session that the program runs in, of another run; empty: none.
    """
    said = tags.get(f"{OUR_TAGS}machine_id", "")[: LIMITS.name_chars] or agent.get("machine", "")
    machine_id = said or _of_parent(workspace, tags) or f"mlflow-{run_id.hex}"
    return as_said(known_machine(workspace, machine_id), tags)


def known_machine(workspace: Workspace, machine_id: str) -> NodeFacts:
    """Return the machine as another run of the workspace has it, if one does."""
    nodes = Node.objects.filter(attempt__run__workspace=workspace, machine_id=machine_id)
    node = nodes.exclude(instance_type="").order_by("-pk").first()
    return facts(node) if node else NodeFacts(machine_id)


def says_something(tags: Mapping[str, str]) -> bool:
    return any(OUR_TAGS + name in tags for name in (*MACHINE_TAGS, _OWNS))


def as_said(machine: NodeFacts, tags: Mapping[str, str]) -> NodeFacts:
    """Return the machine with what tags say, and the hardware that the instance type has."""
    said = {name: tags.get(OUR_TAGS + name, "")[: LIMITS.name_chars] for name in MACHINE_TAGS}
    owns = tags.get(OUR_TAGS + _OWNS, "").lower() in ("true", "1", "yes") or machine.owns_machine
    stated: dict[str, Any] = {name: text for name, text in said.items() if text}
    if stated.get("instance_type", machine.instance_type) != machine.instance_type:
        stated["gpus"] = []  # those of a type that was guessed before
    return _of_type(replace(machine, owns_machine=owns, **stated))


def with_gpus(machine: NodeFacts, count: int) -> NodeFacts:
    """Return the machine with as many GPUs as system metrics are of, if the instance type doesn't
    tell.
    """
    if len(machine.gpus) >= count:
        return machine
    return replace(machine, gpus=[Gpu(_UNKNOWN_GPU, 0)] * count)


def _of_parent(workspace: Workspace, tags: Mapping[str, Any]) -> str:
    """Return the machine of the parent, because a nested run is on the same one; empty if there is
    none.
    """
    try:
        parent = UUID(hex=tags.get(PARENT, ""))
    except ValueError:
        return ""
    nodes = Node.objects.filter(attempt__run=parent, attempt__run__workspace=workspace)
    node = nodes.order_by("-attempt__number", "number").first()
    return node.machine_id if node else ""


def _of_type(machine: NodeFacts) -> NodeFacts:
    """Return the machine with the hardware that the instance type has."""
    kind = catalogue().get(machine.instance_type)
    if kind is None or machine.gpus:
        return machine
    return replace(
        machine,
        vcpus=machine.vcpus or kind.vcpus,
        memory_bytes=machine.memory_bytes or kind.memory_bytes,
        gpus=[Gpu(kind.gpu_model, kind.gpu_memory_bytes)] * kind.gpu_count,
    )
