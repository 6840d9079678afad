"""Whether costs were counted at prices that had not been confirmed for too long."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

from django.db.models import Exists, Max, OuterRef, QuerySet
from django.utils import timezone

from advisor.pricing.staleness import STALE_AFTER, OldPrices, UsedPrice, old_prices
from webapp.analysis.models import CostPart
from webapp.prices.models import Price
from webapp.runs.models import Run

_SOONEST = min(STALE_AFTER.values())


def old_prices_of(parts: QuerySet[CostPart]) -> OldPrices | None:
    """Two queries, whatever the number of costs; the costs are read only if prices are old."""
    last_day = timezone.now().date() + timedelta(days=1)  # No cost is later.
    old = _in_use(last_day)
    if not old:
        return None
    trusted_until = min(price.trusted_until for price in old.values())
    # With both ends SQLite begins with the days, not with every run.
    counted = parts.filter(prices__in=list(old), day__gt=trusted_until, day__lte=last_day)
    days = counted.order_by().values_list("prices").annotate(last_day=Max("day"))
    return old_prices(replace(old[price], last_day=day) for price, day in days)


def _in_use(last_day: date) -> dict[int, UsedPrice]:
    """The prices that are old on that day and that any cost was counted at, by id. Own rates and
    prices that have ended are certain."""
    counted = CostPart.objects.filter(prices=OuterRef("pk"))
    listed = Price.objects.filter(
        Exists(counted), workspace=None, valid_to=None, seen_at__lt=timezone.now() - _SOONEST
    )
    rows = listed.values_list("pk", "purchase_option", "seen_at")
    used = {pk: UsedPrice(option, seen_at, last_day) for pk, option, seen_at in rows if seen_at}
    return {pk: price for pk, price in used.items() if price.is_old}


def old_prices_of_runs(runs: QuerySet[Run], days: int | None = None) -> OldPrices | None:
    """Of these runs, in the last `days`; None: at any time."""
    parts = CostPart.objects.filter(run__in=runs.order_by().values("pk"))
    if days is not None:
        parts = parts.filter(day__gte=timezone.now().date() - timedelta(days=days))
    return old_prices_of(parts)
