"""Nodes as the uses of machines that the advisor prices."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from advisor.costing.cost import NodeUse
from advisor.pricing.gpus import gpu_model
from advisor.pricing.price import PriceKey
from advisor.pricing.providers import DEFAULT, provider
from advisor.pricing.providers.on_premises import GPU_HOUR
from advisor.pricing.providers.on_premises import PROVIDER as ON_PREMISES
from advisor.pricing.providers.provider import MACHINE
from webapp.runs.models import Node


def price_key(node: Node) -> PriceKey:
    """What the node is priced as: its instance type; of an own machine its GPUs, by the hour."""
    seller, service, name = _priced_as(node)
    return PriceKey(
        provider=seller,
        service=service,
        region=node.region,
        instance_type=name,
        purchase_option=node.purchase_option,
        zone=node.zone,
    )


def _priced_as(node: Node) -> tuple[str, str, str]:
    """Provider, service, and type or GPU model."""
    if node.instance_type:
        seller = provider(node.provider or DEFAULT)
        service = node.service or seller.service_of(node.instance_type)
        return node.provider or DEFAULT, service, node.instance_type
    owner = node.provider or ON_PREMISES.name
    if node.gpus:
        told = node.gpus[0]
        known = gpu_model(told.get("model", ""), told.get("memory_bytes", 0))
        return owner, node.service or GPU_HOUR, known.key if known else told.get("model", "")
    return owner, node.service or MACHINE, ""


def instance_types(nodes: Sequence[Node]) -> str:
    """The types of a run's nodes in one text, as its configuration keeps them."""
    return ", ".join(sorted({node.instance_type for node in nodes} - {""}))


def node_use(node: Node) -> NodeUse:
    """When the node was held, and how much of the machine was this run's."""
    return NodeUse(
        node_key=node.key,
        price_key=price_key(node),
        intervals=tuple(session.interval for session in node.sessions.all()),
        share=share(node),
        owns_machine=node.owns_machine,
        units=units(node),
    )


def share(node: Node) -> Fraction:
    """Allocated over total GPUs; over cores where there are none; the whole if not known."""
    if node.gpus:
        allocated = sum(1 for gpu in node.gpus if gpu.get("allocated", True))
        return Fraction(allocated, len(node.gpus)) if allocated else Fraction(1)
    if not node.vcpus or not node.effective_cpus:
        return Fraction(1)
    return min(Fraction(str(round(node.effective_cpus, 3))) / node.vcpus, Fraction(1))


def units(node: Node) -> int:
    """How many of what is priced the node has."""
    return len(node.gpus) if price_key(node).service == GPU_HOUR else 1
