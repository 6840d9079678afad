"""Converts a workspace's price rows to the price book that the advisor reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, fields
from datetime import datetime
from functools import cache
from typing import Any

from django.db.models import CharField, Q, QuerySet

from advisor.pricing.book import PriceBook
from advisor.pricing.discounts import Discount as PlainDiscount
from advisor.pricing.price import PriceKey, PriceRow
from advisor.pricing.providers import machine_name, provider
from webapp.accounts.models import Workspace
from webapp.database.prepared import Models, Slot, Values
from webapp.prices.models import Discount, Price


def price_book(
    workspace: Workspace,
    regions: Collection[str],
    since: datetime | None = None,
    options: Collection[str] = (),
) -> PriceBook:
    """Return the shared rows and the workspace's own rates in `regions`, and its discounts.

    Args:
        since: without rows that had ended by then; None: all.
        options: the only purchase options that are looked up; none: all.
    """
    named = sorted({*regions, ""})
    if since is None and not options:
        slots = {f"region{place}": name for place, name in enumerate(named)}
        rows: Iterable[Sequence[Any]] = _rows_in(len(named))(workspace=workspace.pk, **slots)
    else:
        rows = _rows(workspace, named, since, options)
    # Thousands of rows: not as models.
    width = len(_KEY)
    known = (PriceRow(PriceKey(*row[:width]), *row[width:]) for row in rows)
    return PriceBook(known, [plain_discount(row) for row in _discounts(workspace=workspace.pk)])


@cache
def _rows_in(regions: int) -> Values:
    """Return the rows in so many regions."""
    named = [Slot(f"region{place}", CharField()) for place in range(regions)]
    return Values(lambda: _rows(_WORKSPACE, named))


def _rows(
    workspace: Workspace | Slot,
    regions: Sequence[str | Slot],
    since: datetime | None = None,
    options: Collection[str] = (),
) -> QuerySet[Price, tuple[Any, ...]]:
    rows = Price.objects.filter(Q(workspace=None) | Q(workspace=workspace), region__in=regions)
    if since is not None:
        rows = rows.filter(Q(valid_to=None) | Q(valid_to__gt=since))
    if options:
        rows = rows.filter(purchase_option__in=options)
    return rows.values_list(*_KEY, *_OF_ROW)


@Models
def _discounts() -> QuerySet[Discount]:
    return Discount.objects.filter(workspace=_WORKSPACE)


def rows_elsewhere(workspace: Workspace, regions: Collection[str], key: PriceKey) -> list[PriceRow]:
    """Return the rows that price the machine of `key` in `regions`, but for those that name no
    region.
    """
    names = {key.instance_type, machine_name(key.instance_type), ""}
    names.add(provider(key.provider).short_name(key.instance_type))
    ours = Q(workspace=None) | Q(workspace=workspace)
    found = Price.objects.filter(ours, provider=key.provider, region__in=regions)
    return [to_price_row(row) for row in found.filter(instance_type__in=names)]


def to_price_row(row: Price) -> PriceRow:
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
        usd_per_kwh=row.usd_per_kwh,
        pue=row.pue,
        note=row.note,
    )


def columns(price: PriceRow) -> dict[str, Any]:
    """Return the columns of a row for `price`, without id and workspace."""
    values = {name: getattr(price, name) for name in _SAME_NAME}
    return values | asdict(price.key)


_WORKSPACE = Slot("workspace", Workspace._meta.pk)
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
