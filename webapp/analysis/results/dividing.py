"""Divides a run's ledger among its findings, and writes what a fix of each gives back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from advisor.costing.recoverable import RecoverablePart, recoverable_of_claims
from rules.claims import Claim
from rules.ledger import LabelTime, WasteLedger
from webapp.analysis.models import Judgement, LedgerEntry
from webapp.runs.models import Run

COLUMNS = (
    "waste_seconds_low",
    "waste_seconds_high",
    "waste_usd_low",
    "waste_usd_high",
    "explained_by",
    "taken",
)


def divide_claims(
    claims: Mapping[str, Sequence[Claim]], entries: Sequence[LedgerEntry], run: Run
) -> dict[str, dict[str, Any]]:
    """Return the columns of each rule's row, for the rules that fired.

    Args:
        entries: the run's ledger, with their nodes.
    """
    seconds = run.duration.total_seconds() if run.duration else 0.0
    ledger = WasteLedger(
        tuple(LabelTime(e.node.key, e.gpu, e.label, e.microseconds) for e in entries)
    )
    found = recoverable_of_claims(claims, ledger, seconds, _node_usd(entries))
    return {rule: columns_of(each) for rule, each in found.items()}


def columns_of(recovered: RecoverablePart) -> dict[str, Any]:
    """Convert what a fix gives back to the columns of a judgement's row."""
    return {
        "waste_seconds_low": recovered.seconds_low,
        "waste_seconds_high": recovered.seconds_high,
        "waste_usd_low": recovered.usd_low,
        "waste_usd_high": recovered.usd_high,
        "explained_by": recovered.explained_by,
        "taken": [
            [each.rule, each.seconds, None if each.usd is None else f"{each.usd:f}"]
            for each in recovered.taken
        ],
    }


def redivide_ledger(run: Run) -> None:
    """Divide the run's ledger again. Call this in the transaction that changed some of the run's
    judgements, its ledger or its cost.
    """
    rows = list(Judgement.objects.filter(run=run))
    claims = {row.rule: row.own_claims for row in rows if row.state == Judgement.FIRED}
    entries = list(LedgerEntry.objects.filter(run=run).select_related("node"))
    found = divide_claims(claims, entries, run)
    changed = [
        row for row in rows if _change(row, found.get(row.rule, columns_of(RecoverablePart())))
    ]
    Judgement.objects.bulk_update(changed, COLUMNS)


def _node_usd(entries: Iterable[LedgerEntry]) -> dict[str, Decimal] | None:
    """Return the nodes' costs, or None if a node has no price."""
    summed: dict[str, Decimal] = defaultdict(Decimal)
    for entry in entries:
        if entry.usd is None:
            return None
        summed[entry.node.key] += entry.usd
    return dict(summed)


def _change(row: Judgement, columns: Mapping[str, Any]) -> bool:
    """Change the row; return False if it has the columns already."""
    before = {name: getattr(row, name) for name in columns}
    for name, value in columns.items():
        setattr(row, name, value)
    return before != columns
