"""The waste ledger of one run, as its page shows it."""

from __future__ import annotations

from typing import Any

from ninja import Field, Schema

from webapp.analysis.selectors.ledger import run_ledger
from webapp.api.amounts import money
from webapp.runs.models import Run


class LedgerLineOut(Schema):
    label: str
    is_waste: bool
    seconds: float = Field(description="GPU-seconds; node-seconds on nodes without GPUs.")
    usd: str | None = Field(description="null: no price. The labels sum to the run's cost.")


def document(run: Run) -> list[dict[str, Any]]:
    """Return the ledger as `LedgerLineOut` has it; empty if nothing was measured yet."""
    ledger = run_ledger(run)
    return [
        {name: getattr(line, name) for name in ("label", "is_waste", "seconds")}
        | {"usd": money(line.usd)}
        for line in (ledger.lines if ledger else ())
    ]
