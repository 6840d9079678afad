"""Names that nodes of a run have on pages and in findings."""

from __future__ import annotations

from collections.abc import Iterable

from rules.node_names import distinct_names
from webapp.runs.models import Node


def names_of(nodes: Iterable[Node]) -> dict[str, str]:
    """Return the names of all nodes of a run, by key."""
    return distinct_names({node.key: (node.hostname, node.machine_id) for node in nodes})
