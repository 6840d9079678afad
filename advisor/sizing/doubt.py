"""The doubts whether a machine is what it is taken for. Then no other machine is recommended."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trimtab.wire import NodeFacts

from advisor.pricing.catalogue import GIB, catalogue
from advisor.pricing.gpus import gpu_model, is_named
from advisor.pricing.machine import InstanceType
from advisor.sizing.accelerators import unmeasured_accelerator

MEMORY_LOW, MEMORY_HIGH = 0.6, 1.05
"""Measured memory over that on the data sheet. Firmware, kernel and hypervisor take up to a third
of the smallest machines' memory; more than all of it is another machine (ours)."""
MOST_FITTING = 3
"""Types that are offered as corrections."""


def doubts(nodes: Sequence[NodeFacts]) -> list[str]:
    """Return why, in words, for each node that isn't what it is taken for."""
    return list(dict.fromkeys(why for node in nodes if (why := _doubt(node))))


def price_doubts(nodes: Sequence[NodeFacts]) -> list[str]:
    """Return the doubts as notes on a price, which is that of the declared types."""
    return [f"Price of the declared type: {doubt}" for doubt in doubts(nodes)]


def fitting_types(node: NodeFacts, types: Iterable[InstanceType]) -> list[str]:
    """Return its provider's types that have the GPUs which were seen and contradict nothing that
    was measured, those with as much memory first; empty: the declared type is such a one."""
    declared = catalogue().get(node.instance_type)
    if declared is None or not node.vcpus or not node.memory_bytes or not _doubt(node):
        return []
    fitting = [
        each
        for each in types
        if each.provider == declared.provider
        and _has_gpus(node, each)
        and not list(_differences(node, each))
    ]
    fitting.sort(key=lambda each: (abs(each.memory_bytes - node.memory_bytes), each.name))
    return [each.name for each in fitting[:MOST_FITTING]]


def _has_gpus(node: NodeFacts, other: InstanceType) -> bool:
    if len(node.gpus) != other.gpu_count or not node.gpus:
        return len(node.gpus) == other.gpu_count
    known = gpu_model(node.gpus[0].model, node.gpus[0].memory_bytes)
    return known is not None and known.key == other.gpu_key


def _doubt(node: NodeFacts) -> str:
    declared = catalogue().get(node.instance_type)
    if declared is None:
        return ""
    differences = list(_differences(node, declared))
    if differences:
        return f"{node.instance_type} is declared, but {' and '.join(differences)}."
    if declared.gpu_count and not node.gpus and not unmeasured_accelerator(node):
        return f"{node.instance_type} has {_gpus(declared)}, of which none was seen."
    return ""


def _differences(node: NodeFacts, declared: InstanceType) -> Iterator[str]:
    """Yield what was measured and can't be of this type. 0 is unknown."""
    if node.vcpus and node.vcpus not in (declared.vcpus, declared.physical_cores):
        yield f"{_counted(node.vcpus, 'core')} found instead of {declared.vcpus}"
    ratio = node.memory_bytes / declared.memory_bytes if declared.memory_bytes else 0.0
    if node.memory_bytes and not MEMORY_LOW <= ratio <= MEMORY_HIGH:
        sizes = node.memory_bytes / GIB, declared.memory_bytes / GIB
        yield f"{sizes[0]:.1f} GiB of memory was found instead of {sizes[1]:,.0f} GiB"
    if len(node.gpus) > declared.gpu_count:
        yield f"{_counted(len(node.gpus), 'GPU')} found instead of {declared.gpu_count}"
    elif node.gpus and (other := _other_model(node, declared)):
        yield f"{other} was found instead of {declared.gpu_model or 'another GPU'}"


def _other_model(node: NodeFacts, declared: InstanceType) -> str:
    """Return the model of the node's GPU, if it is known to be another one than the type's, whose
    key isn't known if its provider doesn't say which board it has.
    """
    gpu = node.gpus[0]
    known = gpu_model(gpu.model, gpu.memory_bytes)
    if known is None:
        return ""
    if declared.gpu_key:
        return gpu.model if known.key != declared.gpu_key else ""
    is_same = is_named(known, declared.gpu_model, declared.gpu_memory_bytes)
    return "" if is_same or not declared.gpu_model else gpu.model


def _counted(count: int, noun: str) -> str:
    return f"1 {noun} was" if count == 1 else f"{count} {noun}s were"


def _gpus(declared: InstanceType) -> str:
    model = f"{declared.gpu_vendor} {declared.gpu_model}".strip()
    return f"{declared.gpu_count} {model} {'GPU' if declared.gpu_count == 1 else 'GPUs'}"
