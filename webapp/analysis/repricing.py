"""Prices runs again after their workspace's rates or their machines were changed."""

from __future__ import annotations

from typing import Any

from webapp.accounts.models import Workspace
from webapp.analysis import evaluation, outcome_rows, queue
from webapp.runs.models import Run


def price_what_had_no_price(workspace: Workspace, **_: Any) -> None:
    """Queue the unpriced runs. Priced runs keep the price of their date."""
    unpriced = Run.objects.filter(workspace=workspace, cost_usd=None, started_at__isnull=False)
    for run in unpriced:
        queue.want(run)


def price_again(run: Run, **_: Any) -> None:
    """Write the cost at once, and queue an analysis for the recommendations. Call in a transaction
    that has the run locked."""
    if run.started_at is not None:
        outcome_rows.save(evaluation.priced(run))
    queue.want(run)
    queue.enqueue_on_commit(run)
