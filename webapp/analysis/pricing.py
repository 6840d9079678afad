"""Nodes as the uses of machines that the advisor prices."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from advisor.cost import NodeUse
from advisor.pricing.price import PriceKey
from webapp.runs.models import Node


def price_key(node: Node) -> PriceKey:
    return PriceKey(
        provider=node.provider,
        service=node.service or "ec2",
        region=node.region,
        instance_type=node.instance_type,
        purchase_option=node.purchase_option,
        zone=node.zone,
    )


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
    )


def share(node: Node) -> Fraction:
    """Allocated over total GPUs; over cores where there are none; the whole if not known."""
    if node.gpus:
        allocated = sum(1 for gpu in node.gpus if gpu.get("allocated", True))
        return Fraction(allocated, len(node.gpus)) if allocated else Fraction(1)
    if not node.vcpus or not node.effective_cpus:
        return Fraction(1)
    return min(Fraction(str(round(node.effective_cpus, 3))) / node.vcpus, Fraction(1))
