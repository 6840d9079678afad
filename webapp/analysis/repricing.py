"""Runs that get a price when their workspace says what it pays."""

from __future__ import annotations

from typing import Any

from webapp.accounts.models import Workspace
from webapp.analysis import queue
from webapp.runs.models import Run


def price_what_had_no_price(workspace: Workspace, **_: Any) -> None:
    """Have them analysed again. Runs that have a cost keep the price of their date."""
    unpriced = Run.objects.filter(workspace=workspace, cost_usd=None, started_at__isnull=False)
    for run in unpriced:
        queue.want(run)
