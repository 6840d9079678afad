"""The prices that members of a workspace may see: shared rows and their own."""

from __future__ import annotations

from django.db.models import Q, QuerySet

from advisor.pricing.price import OWN_RATE
from webapp.accounts.models import Workspace
from webapp.prices.models import Discount, Machine, Price, PriceRefresh


def prices_of(workspace: Workspace) -> QuerySet[Price]:
    return Price.objects.filter(Q(workspace=None) | Q(workspace=workspace))


def regions_of(workspace: Workspace) -> list[str]:
    """The regions that have prices, by name."""
    known = prices_of(workspace).exclude(region="").order_by("region")
    return list(known.values_list("region", flat=True).distinct())


def own_rates_of(workspace: Workspace) -> QuerySet[Price]:
    """The workspace's own rates, newest first."""
    own = Price.objects.filter(workspace=workspace, precedence__gte=OWN_RATE)
    return own.order_by("-valid_from", "instance_type", "region")


def discounts_of(workspace: Workspace) -> QuerySet[Discount]:
    """The workspace's discounts, newest first."""
    return Discount.objects.filter(workspace=workspace).order_by("-valid_from", "family", "pk")


def refreshes() -> QuerySet[PriceRefresh]:
    """The state of each refresh, for all workspaces."""
    return PriceRefresh.objects.order_by("name")


def machines() -> QuerySet[Machine]:
    """The availability of types in regions, for all workspaces."""
    return Machine.objects.order_by("instance_type", "region")
