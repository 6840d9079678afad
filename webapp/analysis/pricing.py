"""Converts nodes to the machine uses that the advisor prices."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from advisor import machine
from advisor.costing.cost import NodeUse
from advisor.pricing.price import PriceKey
from webapp.runs.history import facts
from webapp.runs.models import Node


def price_key(node: Node) -> PriceKey:
    """The key of the node's price."""
    return machine.price_key(facts(node))


def instance_types(nodes: Sequence[Node]) -> str:
    """The instance types of a run's nodes as one text, as in its configuration."""
    return ", ".join(sorted({node.instance_type for node in nodes} - {""}))


def node_use(node: Node) -> NodeUse:
    """When the node was held, and the run's share of the machine."""
    return NodeUse(
        node_key=node.key,
        price_key=price_key(node),
        intervals=tuple(session.interval for session in node.sessions.all()),
        share=share(node),
        owns_machine=node.owns_machine,
        units=units(node),
    )


def share(node: Node) -> Fraction:
    """The share of the machine that was allocated to the run."""
    return machine.share(facts(node))


def units(node: Node) -> int:
    """The number of priced units on the node."""
    return machine.units(facts(node))
