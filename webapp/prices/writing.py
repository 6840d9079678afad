"""Writes a provider's prices. A changed price ends its row and gets a new one, so that old runs
keep the price of their date. No row is ever deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

from advisor.money import plain_usd
from advisor.pricing.effective_dates import starts_at
from advisor.pricing.machine import InstanceType
from advisor.pricing.price import BUNDLED, CATALOGUE, REFRESHED, PriceKey, PriceRow
from advisor.pricing.providers.provider import Offer, SpotPrice
from webapp.prices.book import columns
from webapp.prices.models import Machine, Price
from webapp.prices.signals import prices_ended

_BATCH = 500
SAME_PRICE = Decimal("0.005")
"""Sources that differ by less only rounded differently."""
LIST_PRECEDENCES = (BUNDLED, CATALOGUE, REFRESHED)
_CONTRADICTED = "contradicted by"


def write_offers(offers: Sequence[Offer], now: datetime) -> int:
    """Write prices of one precedence, seen at `now`. Returns the number of new rows."""
    known = _open_rows(offers)
    new: list[Price] = []
    for offer in {offer.key: offer for offer in offers}.values():
        row = known.get(offer.key)
        start = offer.effective_from if row is None else _follows(row, offer, now)
        if row is not None and start is None:
            row.seen_at, row.note = now, offer.note
        elif start is not None:
            new.append(_row_of(offer, start, now))
            if row is not None:
                row.valid_to = start
    Price.objects.bulk_update(known.values(), ["seen_at", "valid_to", "note"], batch_size=_BATCH)
    Price.objects.bulk_create(new, batch_size=_BATCH)
    prices_ended.send(sender=Price, rows=[row for row in known.values() if row.valid_to])
    return len(new)


def _follows(row: Price, offer: Offer, now: datetime) -> datetime | None:
    seen_at = row.seen_at or row.valid_from
    return starts_at(
        row.usd_per_hour, row.valid_from, seen_at, offer.usd_per_hour, offer.effective_from, now
    )


def _open_rows(offers: Sequence[Offer]) -> dict[PriceKey, Price]:
    """Return the rows of the same precedence without an end date, by price key."""
    keys = {offer.key for offer in offers}
    options = {key.purchase_option for key in keys}
    rows = _shared(keys, {offer.precedence for offer in offers})
    rows = rows.filter(valid_to=None, purchase_option__in=options)
    return {_key(row): row for row in rows if _key(row) in keys}


def write_spot(prices: Sequence[SpotPrice], now: datetime) -> int:
    """Write spot prices, each until the next change in its zone. Returns the number of new
    changes."""
    seen: dict[PriceKey, list[SpotPrice]] = defaultdict(list)
    for price in prices:
        seen[price.key].append(price)
    known: dict[PriceKey, list[Price]] = defaultdict(list)
    for row in _shared(seen, [REFRESHED]).filter(purchase_option="spot"):
        known[_key(row)].append(row)
    new = [
        row
        for key, seen_prices in seen.items()
        for row in _new_spot(key, known[key], seen_prices, now)
    ]
    Price.objects.bulk_create(new, batch_size=_BATCH)
    for row in new:
        known[_key(row)].append(row)
    _link(known, now)
    return len(new)


def _new_spot(
    key: PriceKey, known: Iterable[Price], seen_prices: Iterable[SpotPrice], now: datetime
) -> list[Price]:
    """Return the prices to write, unchanged ones included, because prices between them may arrive
    later.
    """
    times = {row.valid_from for row in known}
    changes = {price.since: price for price in seen_prices if price.since not in times}
    return [
        _row(key, price.usd_per_hour, since, price.source, now) for since, price in changes.items()
    ]


def _link(known: dict[PriceKey, list[Price]], now: datetime) -> None:
    """Make each row valid until the next one. The last was seen just now."""
    touched = []
    for rows in known.values():
        rows.sort(key=lambda row: row.valid_from)
        for row, following in pairwise(rows):
            if row.valid_to != following.valid_from:
                row.valid_to = following.valid_from
                touched.append(row)
        rows[-1].seen_at = now
        touched.append(rows[-1])
    Price.objects.bulk_update(touched, ["seen_at", "valid_to"], batch_size=_BATCH)


def write_machines(
    machines: Sequence[InstanceType], provider: str, region: str, now: datetime
) -> int:
    """Write the types available in a region. Returns the number of new types."""
    before = Machine.objects.filter(provider=provider, region=region).count()
    rows = [
        Machine(
            provider=provider,
            region=region,
            instance_type=machine.name,
            hardware=machine.to_document(),
            first_seen_at=now,
            last_seen_at=now,
        )
        for machine in machines
    ]
    Machine.objects.bulk_create(
        rows,
        batch_size=_BATCH,
        update_conflicts=True,
        unique_fields=["provider", "region", "instance_type"],
        update_fields=["hardware", "last_seen_at", "gone_at"],
    )
    return Machine.objects.filter(provider=provider, region=region).count() - before


def mark_gone(provider: str, region: str, began_at: datetime, now: datetime) -> None:
    """Retire types that are missing from a complete list, begun at `began_at`. Their prices are
    kept."""
    kept = Machine.objects.filter(provider=provider, region=region, gone_at=None)
    kept.filter(last_seen_at__lt=began_at).update(gone_at=now)


def note_contradictions(offers: Sequence[Offer]) -> int:
    """Mark contradictions between sources: the price that doesn't count gets a note. Returns their
    number."""
    keys = {offer.key: offer for offer in offers if offer.key.purchase_option == "on_demand"}
    rows = [row for row in _shared(keys).filter(valid_to=None) if _key(row) in keys]
    ours = {_key(row): row for row in rows if row.precedence == keys[_key(row)].precedence}
    touched, count = [], 0
    for row in rows:
        own = ours.get(_key(row))
        if own is None or own.precedence == row.precedence:
            continue
        less, more = sorted((own, row), key=lambda each: each.precedence)
        differs = abs(less.usd_per_hour - more.usd_per_hour) > SAME_PRICE * more.usd_per_hour
        count += differs
        if differs or less.note.startswith(_CONTRADICTED):
            less.note = _contradicted_by(more) if differs else ""
            touched.append(less)
    Price.objects.bulk_update(touched, ["note"], batch_size=_BATCH)
    return count


def _contradicted_by(row: Price) -> str:
    day = (row.seen_at or row.valid_from).date()
    return f"{_CONTRADICTED} {row.source} on {day}: ${plain_usd(row.usd_per_hour)}"[:300]


def _shared(keys: Iterable[PriceKey], precedences: Iterable[int] = LIST_PRECEDENCES) -> Any:
    """Return the list prices that may have one of these keys."""
    keys = list(keys)
    return Price.objects.filter(
        workspace=None,
        precedence__in=list(precedences),
        provider__in={key.provider for key in keys},
        service__in={key.service for key in keys},
        region__in={key.region for key in keys},
        instance_type__in={key.instance_type for key in keys},
    )


def _key(row: Price) -> PriceKey:
    return PriceKey(
        row.provider,
        row.service,
        row.region,
        row.instance_type,
        row.purchase_option,
        row.zone,
        row.operating_system,
    )


def _row_of(offer: Offer, start: datetime, now: datetime) -> Price:
    price = PriceRow(
        offer.key,
        offer.usd_per_hour,
        start,
        None,
        offer.source,
        offer.precedence,
        offer.estimated,
        seen_at=now,
        note=offer.note,
    )
    return Price(**columns(price))


def _row(key: PriceKey, usd: Any, start: datetime, source: str, now: datetime) -> Price:
    price = PriceRow(key, usd, start, None, source, REFRESHED, seen_at=now)
    return Price(**columns(price))
