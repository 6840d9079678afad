"""Converts nodes to the machine uses that the advisor prices."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from advisor import machine
from advisor.costing import billing
from advisor.costing.billing import Billing
from advisor.costing.cost import NodeUse
from advisor.costing.electricity import from_document
from advisor.pricing.price import PriceKey
from webapp.runs.history import facts
from webapp.runs.models import Node


def price_key(node: Node) -> PriceKey:
    """Return the key of the node's price."""
    return machine.price_key(facts(node))


def instance_types(nodes: Sequence[Node]) -> str:
    """Return the instance types of a run's nodes as one text, as in its configuration."""
    return ", ".join(sorted({node.instance_type for node in nodes} - {""}))


def node_use(node: Node) -> NodeUse:
    """Return when the node was held, the run's share of the machine, and which part is billed."""
    use = NodeUse(
        node_key=node.key,
        price_key=price_key(node),
        intervals=tuple(session.interval for session in node.sessions.all()),
        share=share(node),
        owns_machine=node.owns_machine,
        units=units(node),
        energy=from_document(node.energy),
    )
    return billing.bill_use(use, billing_of(node))


def billing_of(node: Node) -> Billing:
    """Return what its platform says that it billed of the node."""
    return billing.from_document(node.billing)


def share(node: Node) -> Fraction:
    """Return the share of the machine that was allocated to the run."""
    return machine.share(facts(node))


def units(node: Node) -> int:
    """Return the number of priced units on the node."""
    return machine.units(facts(node))
