"""Converts a node's declaration to hardware for the rules and a price key for the cost."""

from __future__ import annotations

from fractions import Fraction

from trimtab.wire import NodeFacts

from advisor.pricing.catalogue import catalogue
from advisor.pricing.gpus import gpu_model
from advisor.pricing.machine import DEFAULT_PROVIDER
from advisor.pricing.price import PriceKey
from advisor.pricing.providers import provider
from advisor.pricing.providers.on_premises import GPU_HOUR
from advisor.pricing.providers.on_premises import PROVIDER as ON_PREMISES
from advisor.pricing.providers.provider import MACHINE
from rules.frame import GpuHardware, Hardware


def hardware(node: NodeFacts) -> Hardware:
    """Return the machine, as the rules see it."""
    return Hardware(
        instance_type=node.instance_type,
        vcpus=node.vcpus,
        effective_cpus=node.effective_cpus,
        memory_bytes=node.effective_memory_bytes or node.memory_bytes,
        gpus=tuple(GpuHardware(gpu.model, gpu.memory_bytes, gpu.allocated) for gpu in node.gpus),
        gpus_of_type=gpus_of_type(node),
    )


def gpus_of_type(node: NodeFacts) -> int:
    """Return the GPUs of a machine of this type; 0 if it has none, or the type is unknown."""
    known = catalogue().get(node.instance_type)
    return known.gpu_count if known else 0


def price_key(node: NodeFacts) -> PriceKey:
    """Return the node's price key: its instance type, or GPU-hours for an own machine."""
    seller, service, name = _priced_as(node)
    return PriceKey(
        provider=seller,
        service=service,
        region=node.region,
        instance_type=name,
        purchase_option=node.purchase_option,
        zone=node.zone,
    )


def _priced_as(node: NodeFacts) -> tuple[str, str, str]:
    """Return provider, service, and instance type or GPU model."""
    if node.instance_type:
        seller = node.provider or DEFAULT_PROVIDER
        service = node.service or provider(seller).service_of(node.instance_type)
        return seller, service, _name_in_prices(node, seller)
    owner = node.provider or ON_PREMISES.name
    if node.gpus:
        gpu = node.gpus[0]
        known = gpu_model(gpu.model, gpu.memory_bytes)
        return owner, node.service or GPU_HOUR, known.key if known else gpu.model
    return owner, node.service or MACHINE, ""


def _name_in_prices(node: NodeFacts, seller: str) -> str:
    gpu = node.gpus[0] if node.gpus else None
    known = gpu_model(gpu.model, gpu.memory_bytes) if gpu else None
    name = known.key if known else gpu.model if gpu else ""
    return provider(seller).priced_as(node.instance_type, len(node.gpus), name)


def share(node: NodeFacts) -> Fraction:
    """Return allocated GPUs over all GPUs; cores, at least a thousandth of one, if there are no
    GPUs; 1 if unknown.
    """
    if node.gpus:
        return Fraction(allocated_gpus(node) or len(node.gpus), len(node.gpus))
    if not node.vcpus or not node.effective_cpus:
        return Fraction(1)
    allocated_cores = Fraction(str(max(round(node.effective_cpus, 3), 0.001)))
    return min(allocated_cores / node.vcpus, Fraction(1))


def units(node: NodeFacts) -> int:
    """Return the number of priced units of the node."""
    return len(node.gpus) if price_key(node).service == GPU_HOUR else 1


def allocated_gpus(node: NodeFacts) -> int:
    return sum(gpu.allocated for gpu in node.gpus)
