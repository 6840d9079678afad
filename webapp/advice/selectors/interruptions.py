"""Measures how often machines like a run's are interrupted, in the runs of its workspace."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import Count, Sum
from django.db.models.functions import Coalesce

from advisor.advice.checkpointing import assumed_hours
from advisor.advice.purchase import SPOT_OPTION
from advisor.sizing.demand import Demand
from advisor.sizing.interruptions import InterruptionRate, SeenInterruptions, interruption_rate
from webapp.accounts.models import Workspace
from webapp.analysis.scope import lives_of
from webapp.analysis.selectors.failures import INTERRUPTED, RECLAIMED
from webapp.runs.models import Session

SEEN = timedelta(days=90)
_KIND = ("node__provider", "node__region", "node__instance_type")


def rate_of(workspace: Workspace, demand: Demand, now: datetime) -> InterruptionRate | None:
    """Return the rate of a node of the run's type, region and purchase option, by the last 90 days;
    None if they tell too little.
    """
    like = SeenInterruptions(demand.provider, demand.region, demand.instance_type, 0, 0.0)
    seen = _seen(workspace, demand.purchase_option, now - SEEN)
    return interruption_rate(seen, like, assumed_hours(demand.purchase_option))


def _seen(workspace: Workspace, purchase_option: str, since: datetime) -> list[SeenInterruptions]:
    ended = lives_of(workspace).filter(
        RECLAIMED if purchase_option == SPOT_OPTION else INTERRUPTED,
        node__purchase_option=purchase_option,
        ended_at__gte=since,
    )
    counts = ended.order_by().values_list(*_KIND).annotate(Count("pk"))
    interruptions = {tuple(kind): count for *kind, count in counts}
    return [
        SeenInterruptions(
            provider, region, name, interruptions.get((provider, region, name), 0), hours
        )
        for provider, region, name, hours in _held(workspace, purchase_option, since)
    ]


def _held(
    workspace: Workspace, purchase_option: str, since: datetime
) -> Iterator[tuple[str, str, str, float]]:
    """Yield for how many hours nodes of each kind were held."""
    sessions = Session.objects.filter(
        node__attempt__run__workspace=workspace,
        node__attempt__run__deleted_at=None,
        node__purchase_option=purchase_option,
        started_at__gte=since,
    )
    lasted = Sum(Coalesce("ended_ms", "last_ms"))
    for provider, region, name, ms in sessions.order_by().values_list(*_KIND).annotate(ms=lasted):
        yield provider, region, name, float(ms or 0) / 3_600_000
