"""Price rows of a workspace as the plain book that the advisor reads."""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import Q

from advisor.pricing.book import PriceBook
from advisor.pricing.price import PriceKey, PriceRow
from webapp.accounts.models import Workspace
from webapp.prices.models import Price


def price_book(workspace: Workspace, regions: Collection[str]) -> PriceBook:
    """Everybody's rows and the workspace's own rates, in `regions`."""
    ours = Q(workspace=None) | Q(workspace=workspace)
    rows = Price.objects.filter(ours, region__in=regions)
    return PriceBook([_plain(row) for row in rows])


def _plain(row: Price) -> PriceRow:
    key = PriceKey(
        provider=row.provider,
        service=row.service,
        region=row.region,
        instance_type=row.instance_type,
        purchase_option=row.purchase_option,
        zone=row.zone,
        operating_system=row.operating_system,
    )
    return PriceRow(
        key=key,
        usd_per_hour=row.usd_per_hour,
        valid_from=row.valid_from,
        valid_to=row.valid_to,
        source=row.source,
        precedence=row.precedence,
        estimated=row.estimated,
        id=row.pk,
    )
