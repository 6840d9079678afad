"""Whether costs were counted at prices that had not been confirmed for too long."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Max, QuerySet
from django.utils import timezone

from advisor.pricing.staleness import STALE_AFTER, OldPrices, UsedPrice, old_prices
from webapp.analysis.models import CostPart
from webapp.runs.models import Run

_SOONEST = min(STALE_AFTER.values())


def old_prices_of(parts: QuerySet[CostPart]) -> OldPrices | None:
    """One query, whatever the number of costs. Own rates and prices that have ended are certain."""
    now = timezone.now()
    old = {
        # No cost is later. With both ends SQLite begins with the days, not with every run.
        "day__lte": now.date() + timedelta(days=1),
        "prices__workspace": None,
        "prices__valid_to": None,
        "prices__seen_at__lt": now - _SOONEST,
    }
    groups = (
        parts.filter(**old).order_by().values_list("prices__purchase_option", "prices__seen_at")
    )
    used = groups.annotate(last_day=Max("day"))
    return old_prices(UsedPrice(option, seen_at, day) for option, seen_at, day in used)


def old_prices_of_runs(runs: QuerySet[Run], days: int | None = None) -> OldPrices | None:
    """Of these runs, in the last `days`; None: at any time."""
    parts = CostPart.objects.filter(run__in=runs.order_by().values("pk"))
    if days is not None:
        parts = parts.filter(day__gte=timezone.now().date() - timedelta(days=days))
    return old_prices_of(parts)
