"""The page of one node of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from django.db.models import Sum

from webapp.analysis.models import CostPart
from webapp.analysis.selectors.ledger import LedgerView, node_ledger
from webapp.dashboard.selectors.charts import charts
from webapp.dashboard.selectors.gpu_panels import gpu_panels
from webapp.dashboard.selectors.judgements import (
    RuleLine,
    fired_lines,
    nodes_named_by,
    windows_of_node,
)
from webapp.runs.gpu_models import gpu_words
from webapp.runs.models import Node, Run
from webapp.runs.node_names import names_of


@dataclass(frozen=True)
class NodePage:
    """One node; `nodes` holds it alone, for the charts."""

    run: Run
    node: Node
    name: str
    nodes: list[Node]
    before: Node | None
    after: Node | None
    count: int
    """The number of nodes of the run."""
    findings: list[RuleLine]
    """The findings that name the node."""
    ledger: LedgerView | None
    usd: Decimal | None

    @property
    def gpus(self) -> str:
        return gpu_words(self.nodes)

    def chart_document(self) -> dict[str, Any]:
        """Return what the browser needs to draw."""
        listed = [*charts(self.nodes), *gpu_panels(self.nodes)]
        evidence = [
            {"rule": line.row.rule, "title": line.title, "windows": windows}
            for line in self.findings
            if (windows := windows_of_node(line, self.node.key))
        ]
        return {
            "length_seconds": self.run.duration.total_seconds() if self.run.duration else 0.0,
            "nodes": {self.node.key: self.name},
            "charted": [self.node.key],
            "named": {},
            "charts": [chart.document() for chart in listed],
            "usd": None,
            "epochs": None,
            "cores": self.node.vcpus or 0,
            "events": [],
            "evidence": evidence,
        }


def node_page(run: Run, node: Node, nodes: Sequence[Node]) -> NodePage:
    """Return the page of a node.

    Args:
        nodes: all of the run, in order.
    """
    place, fired = nodes.index(node), fired_lines(run)
    parts = CostPart.objects.filter(run=run, node=node)
    return NodePage(
        run=run,
        node=node,
        name=names_of(nodes)[node.key],
        nodes=[node],
        before=nodes[place - 1] if place else None,
        after=nodes[place + 1] if place + 1 < len(nodes) else None,
        count=len(nodes),
        findings=[line for line in fired if node.key in nodes_named_by([line], nodes)],
        ledger=node_ledger(run, node),
        usd=parts.aggregate(usd=Sum("usd"))["usd"],
    )
