"""Nodes as the uses of machines that the advisor prices."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from advisor import machine
from advisor.costing.cost import NodeUse
from advisor.pricing.price import PriceKey
from webapp.runs.history import facts
from webapp.runs.models import Node


def price_key(node: Node) -> PriceKey:
    """What the node is priced as."""
    return machine.price_key(facts(node))


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
    """Of the machine, what the run was given."""
    return machine.share(facts(node))


def units(node: Node) -> int:
    """How many of what is priced the node has."""
    return machine.units(facts(node))
