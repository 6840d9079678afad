"""Writes the price rows bundled with this version to the table.

A row that a cost names never changes its amount, source or beginning. It may end, get a note and
be confirmed. If this version has another amount for it, the row ends now and the new one starts.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from advisor.money import plain_usd
from advisor.pricing.bundled import bundled_prices
from advisor.pricing.price import BUNDLED, PriceRow
from webapp.prices.book import columns
from webapp.prices.models import PRICE_IDENTITY, Price
from webapp.prices.signals import prices_ended

_BATCH = 500
_FACTS = ("usd_per_hour", "source", "estimated")
_CIRCUMSTANCES = ("valid_to", "seen_at", "note")
_MAY_CHANGE = (*_FACTS, *_CIRCUMSTANCES)


@transaction.atomic
def sync_bundled(**_: Any) -> None:
    """Add new bundled rows, end and correct known ones. None is deleted: costs refer to them."""
    now = timezone.now()
    known = {
        _identity(row): row for row in Price.objects.filter(precedence=BUNDLED, workspace=None)
    }
    wanted = [_row(price) for price in bundled_prices()]
    new = [row for row in wanted if _identity(row) not in known]
    pairs = [(known[_identity(row)], row) for row in wanted if _identity(row) in known]
    for row, want in pairs:
        want.note = want.note or row.note
    differing = [(row, want) for row, want in pairs if _differs(row, want, _MAY_CHANGE)]
    named = _named(row for row, want in differing if _differs(row, want, _FACTS))
    ends = {row.pk: row.valid_to for row, _ in differing}
    for row, want in differing:
        if row.pk in named and row.usd_per_hour != want.usd_per_hour:
            new += _replaced(row, want, now)
        else:
            _mend(row, want, _CIRCUMSTANCES if row.pk in named else _MAY_CHANGE)
    changed = [row for row, _ in differing]
    Price.objects.bulk_create(new, batch_size=_BATCH)
    Price.objects.bulk_update(changed, _MAY_CHANGE, batch_size=_BATCH)
    ended = [row for row in changed if row.valid_to is not None and row.valid_to != ends[row.pk]]
    prices_ended.send(sender=Price, rows=ended)


def _identity(row: Price) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in PRICE_IDENTITY)


def _differs(row: Price, want: Price, names: Iterable[str]) -> bool:
    return any(getattr(row, name) != getattr(want, name) for name in names)


def _named(rows: Iterable[Price]) -> set[int]:
    """Return the ids of those that a cost refers to."""
    ids = [row.pk for row in rows]
    found: set[int] = set()
    for start in range(0, len(ids), _BATCH):
        asked = Price.objects.filter(pk__in=ids[start : start + _BATCH], costpart__isnull=False)
        found.update(asked.values_list("pk", flat=True))
    return found


def _mend(row: Price, want: Price, names: Iterable[str]) -> None:
    for name in names:
        setattr(row, name, getattr(want, name))


def _replaced(row: Price, want: Price, now: datetime) -> list[Price]:
    """End the row now; the new amount starts now, unless it ended earlier. Done once."""
    note = f"corrected to ${plain_usd(want.usd_per_hour)} by {want.source}"[:300]
    if row.note == note:
        return []
    row.note = note
    row.valid_to = min(end for end in (row.valid_to, want.valid_to, now) if end is not None)
    want.valid_from = now
    return [want] if want.valid_to is None or want.valid_to > now else []


def _row(price: PriceRow) -> Price:
    return Price(**columns(price))
