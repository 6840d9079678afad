"""The prices that members of a workspace may see: shared rows and their own."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache

from django.db.models import Q, QuerySet
from django.utils import timezone

from advisor.pricing.bundled import bundled_prices
from advisor.pricing.price import OWN_RATE, PriceKey
from advisor.pricing.providers import machine_name, provider
from webapp.accounts.models import Workspace
from webapp.prices.models import Discount, Machine, Price, PriceRefresh


def prices_of(workspace: Workspace) -> QuerySet[Price]:
    return Price.objects.filter(Q(workspace=None) | Q(workspace=workspace))


def regions_of(workspace: Workspace) -> list[str]:
    """Return the regions that have prices, by name."""
    known = prices_of(workspace).exclude(region="").order_by("region")
    return list(known.values_list("region", flat=True).distinct())


def has_others(workspace: Workspace, key: PriceKey) -> bool:
    """Return whether another machine than that of the key has a price today, bought in the same
    way.
    """
    like = provider(key.provider).priced_like(key)
    services = {key.service, like.service if like else key.service}
    names = {key.instance_type, machine_name(key.instance_type), ""}
    places = ((key.provider, each, key.region, key.purchase_option) for each in services)
    if any(_bundled().get(place, frozenset()) - names for place in places):
        return True
    now = timezone.now()
    priced = prices_of(workspace).filter(
        Q(valid_to=None) | Q(valid_to__gt=now),
        provider=key.provider,
        service__in=services,
        region__in={key.region, ""},
        purchase_option=key.purchase_option,
    )
    return priced.exclude(instance_type__in=names).exists()


@cache
def _bundled() -> Mapping[tuple[str, str, str, str], frozenset[str]]:
    """Return, by provider, service, region and purchase option, the types with a bundled price
    today: most questions are answered by them, without the database.
    """
    found: dict[tuple[str, str, str, str], set[str]] = defaultdict(set)
    for row in bundled_prices():
        key = row.key
        if row.valid_to is None:
            place = key.provider, key.service, key.region, key.purchase_option
            found[place].add(key.instance_type)
    return {place: frozenset(names) for place, names in found.items()}


def own_rates_of(workspace: Workspace) -> QuerySet[Price]:
    """Return the workspace's own rates, newest first."""
    own = Price.objects.filter(workspace=workspace, precedence__gte=OWN_RATE)
    return own.order_by("-valid_from", "instance_type", "region")


def discounts_of(workspace: Workspace) -> QuerySet[Discount]:
    """Return the workspace's discounts, newest first."""
    return Discount.objects.filter(workspace=workspace).order_by("-valid_from", "family", "pk")


def refreshes() -> QuerySet[PriceRefresh]:
    """Return the state of each refresh, for all workspaces."""
    return PriceRefresh.objects.order_by("name")


def machines() -> QuerySet[Machine]:
    """Return the availability of types in regions, for all workspaces."""
    return Machine.objects.order_by("instance_type", "region")
