"""Prices runs again after their workspace's rates, their machines or list prices changed."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from typing import Any

from webapp.accounts.models import Workspace
from webapp.analysis import queue
from webapp.analysis.judging import evaluation
from webapp.analysis.results import outcome_rows
from webapp.prices.models import Price
from webapp.runs import locks
from webapp.runs.models import Run


def price_what_had_no_price(workspace: Workspace, **_: Any) -> None:
    """Queue the unpriced runs. Priced runs keep the price of their date."""
    unpriced = Run.objects.filter(workspace=workspace, cost_usd=None, started_at__isnull=False)
    for run in unpriced:
        queue.queue_run(run, is_upload=False)


def price_what_has_ended(rows: Iterable[Price], **_: Any) -> None:
    """Queue the runs with a cost at one of these prices for a time after its end. A run that ended
    before keeps its price."""
    for row in rows:
        if row.valid_to is not None:
            last_day = row.valid_to.astimezone(UTC).date()
            runs = Run.objects.filter(cost_parts__prices=row, cost_parts__day__gte=last_day)
            for run in runs.filter(started_at__isnull=False).distinct():
                queue.queue_run(run, is_upload=False)


def reprice_run(run: Run, **_: Any) -> None:
    """Write the cost at once, and queue an analysis for the recommendations. Call in a transaction
    that has the run and its job locked."""
    if run.started_at is not None:
        outcome_rows.save(evaluation.price_run(run), locks.run(run.pk))
    queue.queue_run(run, is_upload=False)
    queue.enqueue_on_commit(run)
