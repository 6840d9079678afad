"""Converts a workspace's price rows to the price book that the advisor reads."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from django.db.models import Q

from advisor.pricing.book import PriceBook
from advisor.pricing.discounts import Discount as PlainDiscount
from advisor.pricing.price import PriceKey, PriceRow
from advisor.pricing.providers import machine_name, provider
from webapp.accounts.models import Workspace
from webapp.prices.models import Discount, Price


def price_book(
    workspace: Workspace,
    regions: Collection[str],
    since: datetime | None = None,
    options: Collection[str] = (),
) -> PriceBook:
    """The shared rows and the workspace's own rates in `regions`, and its discounts.

    Args:
        since: without rows that had ended by then; None: all.
        options: the only purchase options that are looked up; none: all.
    """
    ours = Q(workspace=None) | Q(workspace=workspace)
    rows = Price.objects.filter(ours, region__in={*regions, ""})
    if since is not None:
        rows = rows.filter(Q(valid_to=None) | Q(valid_to__gt=since))
    if options:
        rows = rows.filter(purchase_option__in=options)
    discounts = Discount.objects.filter(workspace=workspace)
    # Thousands of rows: not as models.
    width = len(_KEY)
    known = (
        PriceRow(PriceKey(*row[:width]), *row[width:]) for row in rows.values_list(*_KEY, *_OF_ROW)
    )
    return PriceBook(known, [plain_discount(row) for row in discounts])


def rows_elsewhere(workspace: Workspace, regions: Collection[str], key: PriceKey) -> list[PriceRow]:
    """The rows that price the machine of `key` in `regions`, but for those that name no region."""
    names = {key.instance_type, machine_name(key.instance_type), ""}
    names.add(provider(key.provider).short_name(key.instance_type))
    ours = Q(workspace=None) | Q(workspace=workspace)
    found = Price.objects.filter(ours, provider=key.provider, region__in=regions)
    return [plain(row) for row in found.filter(instance_type__in=names)]


def plain(row: Price) -> PriceRow:
    """Converts a row for the advisor."""
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
        seen_at=row.seen_at,
        note=row.note,
    )


def columns(price: PriceRow) -> dict[str, Any]:
    """The columns of a row for `price`, without id and workspace."""
    values = {name: getattr(price, name) for name in _SAME_NAME}
    return values | asdict(price.key)


_KEY = tuple(column.name for column in fields(PriceKey))
_OF_ROW = tuple(column.name for column in fields(PriceRow) if column.name != "key")
_SAME_NAME = tuple(name for name in _OF_ROW if name != "id")


def plain_discount(row: Discount) -> PlainDiscount:
    return PlainDiscount(
        percent=row.percent,
        valid_from=row.valid_from,
        valid_to=row.valid_to,
        family=row.family,
        service=row.service,
        purchase_option=row.purchase_option,
    )
