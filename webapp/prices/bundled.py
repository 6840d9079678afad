"""Writes the price rows bundled with this version to the table."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from advisor.pricing.bundled import bundled_prices
from advisor.pricing.price import PriceRow
from webapp.prices.book import columns
from webapp.prices.models import PRICE_IDENTITY, Price

_BATCH = 500
_MAY_CHANGE = ("usd_per_hour", "valid_to", "source", "estimated", "seen_at")


@transaction.atomic
def sync_bundled(**_: Any) -> None:
    """Add new bundled rows and correct changed ones. None is deleted: old costs refer to them."""
    known = {_identity(row): row for row in Price.objects.filter(precedence=0, workspace=None)}
    wanted = [_row(price) for price in bundled_prices()]
    new = [row for row in wanted if _identity(row) not in known]
    changed = [_mended(known[_identity(row)], row) for row in wanted if _identity(row) in known]
    Price.objects.bulk_create(new, batch_size=_BATCH)
    Price.objects.bulk_update([row for row in changed if row], _MAY_CHANGE, batch_size=_BATCH)


def _identity(row: Price) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in PRICE_IDENTITY)


def _mended(known: Price, wanted: Price) -> Price | None:
    """The known row with the new values; None if nothing differs."""
    if all(getattr(known, name) == getattr(wanted, name) for name in _MAY_CHANGE):
        return None
    for name in _MAY_CHANGE:
        setattr(known, name, getattr(wanted, name))
    return known


def _row(price: PriceRow) -> Price:
    return Price(**columns(price))
