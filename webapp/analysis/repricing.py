"""Runs that are priced again: their workspace says what it pays, or a person what they ran on."""

from __future__ import annotations

from typing import Any

from webapp.accounts.models import Workspace
from webapp.analysis import evaluation, outcome_rows, queue
from webapp.runs.models import Run


def price_what_had_no_price(workspace: Workspace, **_: Any) -> None:
    """Have them analysed again. Runs that have a cost keep the price of their date."""
    unpriced = Run.objects.filter(workspace=workspace, cost_usd=None, started_at__isnull=False)
    for run in unpriced:
        queue.want(run)


def price_again(run: Run, **_: Any) -> None:
    """Write the cost at once; what was advised follows with the analysis that this asks for. Call
    in a transaction that holds the run."""
    if run.started_at is not None:
        outcome_rows.save(evaluation.priced(run))
    queue.want(run)
    queue.enqueue_on_commit(run)
