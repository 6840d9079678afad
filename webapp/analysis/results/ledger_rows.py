"""The waste ledger's rows: time from the rules, and dollars in proportion to time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal

from advisor.costing.cost import RunCost
from advisor.money import split_usd
from rules.ledger import LabelTime
from webapp.analysis.models import LedgerEntry
from webapp.analysis.outcome import Outcome
from webapp.database import documents
from webapp.runs.models import Node, Run


def save(run: Run, outcome: Outcome) -> list[LedgerEntry]:
    """Replace the entries, and return the new ones. Without samples the known times are kept and
    priced again. Call in a transaction that has the run locked."""
    measured = outcome.measured
    entries = list(_known(run) if measured is None else measured.ledger.entries)
    rows = [row for node in outcome.nodes for row in _rows(run, node, entries, outcome.cost)]
    LedgerEntry.objects.filter(run=run).delete()
    documents.save(rows)
    return rows


def _known(run: Run) -> Iterator[LabelTime]:
    for row in LedgerEntry.objects.filter(run=run).select_related("node"):
        yield LabelTime(row.node.key, row.gpu, row.label, row.microseconds)


def _rows(run: Run, node: Node, of_run: Iterable[LabelTime], cost: RunCost) -> list[LedgerEntry]:
    entries = [entry for entry in of_run if entry.node == node.key] or list(
        _unclassified(node, cost)
    )
    usd = _usd(node, entries, cost)
    return [
        LedgerEntry(
            run=run,
            node=node,
            gpu=entry.gpu,
            label=entry.label,
            microseconds=entry.microseconds,
            usd=usd.get(place),
        )
        for place, entry in enumerate(entries)
    ]


def _usd(node: Node, entries: list[LabelTime], cost: RunCost) -> dict[int, Decimal]:
    """Return the USD by the entry's index. All GPUs of a node are held equally long, so time is the
    weight.
    """
    if node.key in cost.missing:
        return {}
    whole = sum((part.usd for part in cost.parts if part.node_key == node.key), Decimal(0))
    return split_usd(whole, {place: entry.microseconds for place, entry in enumerate(entries)})


def _unclassified(node: Node, cost: RunCost) -> Iterator[LabelTime]:
    """Yield the entry of a node that was paid for but sent nothing."""
    seconds = sum((part.seconds for part in cost.parts if part.node_key == node.key), Decimal(0))
    if seconds:
        yield LabelTime(node.key, None, "unclassified", int(seconds * 1_000_000))
