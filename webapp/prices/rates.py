"""A workspace's own rates and discounts. A rate that a cost refers to is ended, never deleted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction

from advisor.money import plain_usd
from advisor.pricing.price import OWN_RATE, PriceRow
from webapp.accounts import audit
from webapp.accounts.models import User, Workspace
from webapp.prices.book import columns
from webapp.prices.models import PRICE_IDENTITY, Discount, Price
from webapp.prices.signals import rates_changed


@dataclass
class AddedRates:
    """The result of adding rates. `refused`: why each of these can't be added."""

    new: int = 0
    unchanged: int = 0
    refused: list[str] = field(default_factory=list)


@transaction.atomic
def add_rates(workspace: Workspace, actor: User, rates: Iterable[PriceRow]) -> AddedRates:
    """Add own rates, all or none. A rate with another price for the same start date is refused, and
    so are all others."""
    own = Price.objects.filter(workspace=workspace, precedence=OWN_RATE)
    known = {_identity(row): row for row in own}
    added = AddedRates()
    for rate in rates:
        row = Price(workspace=workspace, **columns(rate))
        before = known.get(_identity(row))
        if before is None:
            row.save()
            known[_identity(row)] = row
            added.new += 1
            audit.record(workspace, actor, "rate.added", _words(row), _as_change(row))
        elif _same(before, row):
            added.unchanged += 1
        else:
            added.refused.append(_taken(before))
    if added.refused:
        transaction.set_rollback(True)
        added.new = 0
    if added.new:
        rates_changed.send(sender=Price, workspace=workspace)
    return added


@transaction.atomic
def add_discount(workspace: Workspace, actor: User, discount: Discount) -> None:
    """Add a discount that applies from its start date."""
    discount.workspace = workspace
    discount.save()
    percent = f"{discount.percent.normalize():f}"
    change = {"percent": (None, percent), "valid_from": (None, discount.valid_from.isoformat())}
    audit.record(workspace, actor, "discount.added", str(discount), change)
    rates_changed.send(sender=Discount, workspace=workspace)


@transaction.atomic
def stop_rate(row: Price | Discount, actor: User, now: datetime) -> bool:
    """End a rate now. A rate that priced nothing is deleted. Returns False if it had ended
    already."""
    if row.valid_to is not None and row.valid_to <= now:
        return False
    assert row.workspace is not None  # noqa: S101 - own rows only
    action = f"{'rate' if isinstance(row, Price) else 'discount'}.ended"
    audit.record(row.workspace, actor, action, _words(row), {"valid_to": (None, now.isoformat())})
    if row.valid_from >= now or (isinstance(row, Price) and not _is_named(row)):
        row.delete()
    else:
        row.valid_to = now
        row.save(update_fields=["valid_to"])
    return True


def _is_named(price: Price) -> bool:
    """Return whether a cost refers to the rate."""
    return bool(price.costpart_set.exists())


def _identity(row: Price) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in PRICE_IDENTITY)


def _same(known: Price, row: Price) -> bool:
    names = ("usd_per_hour", "valid_to", "usd_per_kwh", "pue")
    return all(getattr(known, name) == getattr(row, name) for name in names)


def _taken(known: Price) -> str:
    day = known.valid_from.date()
    price = plain_usd(known.usd_per_hour)
    return f"{_words(known)} already has a rate from {day}, {price}; end that rate first"


def _words(row: Price | Discount) -> str:
    if isinstance(row, Discount):
        return str(row)
    what = row.instance_type or f"any {row.service.replace('_', ' ')}"
    return f"{what} in {row.region}" if row.region else what


def _as_change(row: Price) -> dict[str, tuple[Any, Any]]:
    change: dict[str, tuple[Any, Any]] = {
        "usd_per_hour": (None, plain_usd(row.usd_per_hour)),
        "valid_from": (None, row.valid_from.isoformat()),
    }
    if row.usd_per_kwh is not None and row.pue is not None:
        change["usd_per_kwh"] = (None, plain_usd(row.usd_per_kwh))
        change["pue"] = (None, plain_usd(row.pue))
    return change
