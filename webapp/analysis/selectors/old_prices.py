"""Finds costs that were counted at prices that had not been confirmed for too long."""

from __future__ import annotations

from datetime import timedelta

from django.db.models import Exists, Max, OuterRef, QuerySet, Subquery
from django.utils import timezone

from advisor.pricing.staleness import STALE_AFTER, OldPrices, UsedPrice, old_prices
from webapp.analysis.models import CostPart
from webapp.prices.models import Price
from webapp.runs.models import Run

_SOONEST = min(STALE_AFTER.values())


def old_prices_of(parts: QuerySet[CostPart]) -> OldPrices | None:
    """Return the old prices in one query, whatever the number of costs. Own rates and prices that
    have ended are certain.

    It begins with the prices that are in use: while none of them is old, no cost is read.
    """
    now = timezone.now()
    counted = parts.filter(prices=OuterRef("pk"), day__lte=now.date() + timedelta(days=1))
    last_day = counted.order_by().values("prices").annotate(last_day=Max("day"))
    in_use = Exists(CostPart.objects.filter(prices=OuterRef("pk")))
    listed = Price.objects.filter(workspace=None, valid_to=None, seen_at__lt=now - _SOONEST)
    rows = (
        listed.filter(in_use)
        .order_by()
        .values_list("purchase_option", "seen_at", Subquery(last_day.values("last_day")))
    )
    # A missing day means that none of these costs was counted at the price.
    return old_prices(UsedPrice(option, seen, day) for option, seen, day in rows if seen and day)


def old_prices_of_runs(runs: QuerySet[Run], days: int | None = None) -> OldPrices | None:
    """Return the old prices of these runs, in the last `days`, or at any time without `days`."""
    parts = CostPart.objects.filter(run__in=runs.order_by().values("pk"))
    if days is not None:
        parts = parts.filter(day__gte=timezone.now().date() - timedelta(days=days))
    return old_prices_of(parts)
