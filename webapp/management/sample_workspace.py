"""The sample workspace: simulated runs, uploaded and analysed like any others, and a budget."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from django.db.models import F, Q, Sum
from django.utils import timezone

from webapp.accounts.models import Token, Workspace
from webapp.accounts.setup import sample_workspace
from webapp.analysis.models import Analysis
from webapp.runs.models import Run
from webapp.spend.models import Budget

ANALYSES_SECONDS = 600
TEAM = "language"
LEAST_BUDGET_USD = Decimal(30)
Progress = Callable[[float], None]


class SampleDataError(Exception):
    """Raised when the workspace isn't complete; the message says why."""


def load(url: str, progress: Progress) -> None:
    """Upload all runs that have ended; what is there already is left as it is."""
    from webapp.sample_data import load as loading

    workspace = sample_workspace()
    with _token(workspace) as token:
        try:
            # The same moment each time, so that only what an interrupted load left out is added.
            loading.load(url, token, workspace.created_at, progress)
        except loading.SampleUploadError as error:
            raise SampleDataError(str(error)) from error


def wait_for_analyses(progress: Progress) -> None:
    """Wait until every run's last analysis is saved."""
    analyses = Analysis.objects.filter(run__workspace=sample_workspace())
    due = analyses.filter(Q(done__lt=F("wanted")) | Q(is_final=False), given_up_at=None)
    total, until = analyses.count(), time.monotonic() + ANALYSES_SECONDS
    while left := due.exclude(run__state=Run.RUNNING).count():
        if time.monotonic() > until:
            raise SampleDataError(f"{left} sample runs were not analysed; see the worker's log.")
        progress(1 - left / total)
        time.sleep(0.5)


def set_budget() -> None:
    """Set a team's budget for the month, a tenth above what it has spent: it won't last."""
    workspace = sample_workspace()
    month = timezone.now().replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    own = Run.objects.filter(workspace=workspace, tags__team=TEAM, started_at__gte=month)
    spent = own.aggregate(usd=Sum("cost_usd"))["usd"] or Decimal(0)
    amount = max(LEAST_BUDGET_USD, Decimal(math.ceil(spent * Decimal("1.1"))))
    Budget.objects.get_or_create(
        workspace=workspace,
        tag_key="team",
        tag_value=TEAM,
        deleted_at=None,
        defaults={"amount_usd": amount},
    )


def follow_live_run(url: str) -> None:
    """Upload a run that continues, until it ends or this process is asked to."""
    from webapp.sample_data.live import LiveRun
    from webapp.sample_data.load import SampleUploadError

    signal.signal(signal.SIGTERM, lambda *_: _interrupt())
    with _token(sample_workspace()) as token:
        try:
            LiveRun(url, token, datetime.now(UTC)).follow()
        except (KeyboardInterrupt, SampleUploadError):
            return


def _interrupt() -> None:
    raise KeyboardInterrupt


@contextmanager
def _token(workspace: Workspace) -> Iterator[str]:
    """Yield a token that may upload, for a day at most."""
    until = timezone.now() + timedelta(days=1)
    row, plain = Token.make(workspace, "Simulated runs", [Token.INGEST], expires_at=until)
    try:
        yield plain
    finally:
        Token.objects.filter(pk=row.pk).update(revoked_at=timezone.now())
