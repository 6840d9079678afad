"""Why a machine may not be what it is taken for. Then no other machine is recommended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trimtab.wire import NodeFacts

from advisor.pricing.catalogue import GIB, InstanceType, catalogue
from advisor.pricing.gpus import gpu_model

MEMORY_LOW, MEMORY_HIGH = 0.6, 1.05
"""Measured memory over that on the data sheet. Firmware, kernel and hypervisor take up to a third
of the smallest machines' memory; more than all of it is another machine (ours)."""


def doubts(nodes: Sequence[NodeFacts]) -> list[str]:
    """For each node that isn't what it is taken for: why, in words."""
    return list(dict.fromkeys(why for node in nodes if (why := _doubt(node))))


def _doubt(node: NodeFacts) -> str:
    declared = catalogue().get(node.instance_type)
    if declared is None:
        return ""
    differences = list(_differences(node, declared))
    if differences:
        return f"{node.instance_type} is declared, but {' and '.join(differences)}."
    if declared.gpu_count and not node.gpus:
        return f"{node.instance_type} has {_gpus(declared)}, of which none was seen."
    return ""


def _differences(node: NodeFacts, declared: InstanceType) -> Iterator[str]:
    """What was measured and can't be of this type. 0 is unknown."""
    if node.vcpus and node.vcpus not in (declared.vcpus, declared.physical_cores):
        yield f"{_counted(node.vcpus, 'core')} found instead of {declared.vcpus}"
    ratio = node.memory_bytes / declared.memory_bytes if declared.memory_bytes else 0.0
    if node.memory_bytes and not MEMORY_LOW <= ratio <= MEMORY_HIGH:
        sizes = node.memory_bytes / GIB, declared.memory_bytes / GIB
        yield f"{sizes[0]:.1f} GiB of memory was found instead of {sizes[1]:,.0f} GiB"
    if len(node.gpus) > declared.gpu_count:
        yield f"{_counted(len(node.gpus), 'GPU')} found instead of {declared.gpu_count}"
    elif node.gpus and (other := _other_model(node, declared)):
        yield f"a {other} was found"


def _other_model(node: NodeFacts, declared: InstanceType) -> str:
    """The model of the node's GPU, if it is known to be another one than the type's."""
    gpu = node.gpus[0]
    known = gpu_model(gpu.model, gpu.memory_bytes)
    is_other = known is not None and declared.gpu_key and known.key != declared.gpu_key
    return gpu.model if is_other else ""


def _counted(count: int, noun: str) -> str:
    return f"1 {noun} was" if count == 1 else f"{count} {noun}s were"


def _gpus(declared: InstanceType) -> str:
    model = f"{declared.gpu_vendor} {declared.gpu_model}".strip()
    return f"{declared.gpu_count} {model} {'GPU' if declared.gpu_count == 1 else 'GPUs'}"
