"""Finds the price of a machine at a time among all known rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from itertools import pairwise

from advisor.pricing.catalogue import catalogue
from advisor.pricing.discounts import Discount, apply_discounts
from advisor.pricing.price import OWN_RATE, PriceKey, PriceRow
from advisor.pricing.providers import provider
from advisor.pricing.providers.provider import MACHINE


@dataclass(frozen=True)
class PricedAt:
    """The row with the price at a moment. `later`: no row was valid yet, so it is the next one."""

    row: PriceRow
    later: bool


@dataclass(frozen=True)
class PriceSpan:
    """A time under one price; `row` None is "no price"."""

    start: datetime
    end: datetime
    row: PriceRow | None
    later: bool


class PriceBook:
    """Looks prices up, by precedence: own rate, family discount, flat discount, refreshed list
    price, bundled list price. Within each, a row that names the type, the region or the zone
    overrides a row for any; then the latest `valid_from` counts.

    If no price is known, or the last one has ended, the provider may estimate one: SageMaker's from
    EC2's.
    """

    def __init__(self, rows: Iterable[PriceRow], discounts: Iterable[Discount] = ()) -> None:
        """Take the rows. Raises ValueError for a row without a time zone, without a duration, or
        with a price of 0 or less.
        """
        self._rows: dict[PriceKey, list[PriceRow]] = defaultdict(list)
        self._discounts = tuple(discounts)
        self._found: dict[PriceKey, list[PriceRow]] = {}
        for row in rows:
            _check(row)
            self._rows[row.key].append(row)
        self._keys: dict[tuple[str, ...], list[PriceKey]] = defaultdict(list)
        for key in self._rows:
            self._keys[_sold(key, key.instance_type)].append(key)

    def at_list(self) -> PriceBook:
        """Return the same book before discounts and own rates."""
        return PriceBook(row for rows in self._rows.values() for row in rows if row.is_list)

    def with_rows(self, more: Iterable[PriceRow]) -> PriceBook:
        """Return the same book with further rows, which it must not have."""
        own = (row for rows in self._rows.values() for row in rows)
        return PriceBook([*own, *more], self._discounts)

    @property
    def has_own_rates(self) -> bool:
        """Return whether "your rate" can differ from the list price."""
        return bool(self._discounts) or any(
            not row.is_list for rows in self._rows.values() for row in rows
        )

    def price_at(self, key: PriceKey, when: datetime) -> PricedAt | None:
        """Return the price at `when`; None is "no price", which is not 0.

        If no row is valid (before the first row, or between two), it is the next row, marked
        `later`. After the last row ends there is no price.
        """
        rows = self._rows_of(key)
        holding = [row for row in rows if row.holds_at(when)]
        if holding:
            return PricedAt(_highest(holding), later=False)
        coming = [row for row in rows if row.valid_from > when]
        if not coming:
            return None
        first = min(row.valid_from for row in coming)
        return PricedAt(_highest([r for r in coming if r.valid_from == first]), later=True)

    def spans(self, key: PriceKey, start: datetime, end: datetime) -> list[PriceSpan]:
        """`start` to `end` split into pieces of one price each, in order and without gaps."""
        turns = {t for row in self._rows_of(key) for t in (row.valid_from, row.valid_to) if t}
        edges = [start, *sorted(turn for turn in turns if start < turn < end), end]
        spans: list[PriceSpan] = []
        for piece_start, piece_end in pairwise(edges):
            priced = self.price_at(key, piece_start)
            row, later = (priced.row, priced.later) if priced else (None, False)
            if spans and (spans[-1].row, spans[-1].later) == (row, later):
                spans[-1] = replace(spans[-1], end=piece_end)
            elif piece_start < piece_end:
                spans.append(PriceSpan(piece_start, piece_end, row, later))
        return spans

    def instance_types(self, like: PriceKey) -> list[str]:
        """Return the types that have a price in the same service, region and so on as `like`."""
        wanted = replace(like, instance_type="")
        anywhere = replace(wanted, zone="")
        return sorted(
            {
                key.instance_type
                for key in self._rows
                if key.instance_type and replace(key, instance_type="") in (wanted, anywhere)
            }
        )

    def _rows_of(self, key: PriceKey) -> list[PriceRow]:
        found = self._found.get(key)
        if found is None:
            known = list(self._known(key))
            known += self._estimated_after(key, known)
            found = self._found[key] = [*known, *apply_discounts(known, self._discounts)]
        return found

    def _known(self, key: PriceKey) -> Iterator[PriceRow]:
        """Yield the rows of the key itself, and of keys without zone, region or type.

        Own rates also count if they are for the service "machine", or for the short name: that of
        the host of attached GPUs. Their owner means the whole machine.
        """
        short = provider(key.provider).short_name(key.instance_type)
        services, regions, zones = (key.service, MACHINE), (key.region, ""), (key.zone, "")
        for type_ in {key.instance_type, short, ""}:
            for known in self._keys.get(_sold(key, type_), ()):
                is_near = known.region in regions and known.zone in zones
                if is_near and known.service in services:
                    is_other = known.service != key.service or type_ == short != key.instance_type
                    rows = self._rows[known]
                    yield from (row for row in rows if not (is_other and row.is_list))

    def _estimated_after(self, key: PriceKey, known: Sequence[PriceRow]) -> Iterator[PriceRow]:
        """Yield the estimates for the time after the last known price; all of them if none is
        known.
        """
        ends = [row.valid_to for row in known if row.valid_to is not None]
        if len(ends) < len(known):
            return
        for row in self._estimated(key):
            start = max([row.valid_from, *ends])
            if row.valid_to is None or start < row.valid_to:
                yield replace(row, valid_from=start)

    def _estimated(self, key: PriceKey) -> Iterator[PriceRow]:
        seller = provider(key.provider)
        like = seller.priced_like(key)
        if like is not None:
            machine = catalogue().get(key.instance_type)
            yield from seller.estimates(key, machine, self._known(like))


def _sold(key: PriceKey, instance_type: str) -> tuple[str, ...]:
    """Return what a price must have in common with the machine, and one of the names of its
    type.
    """
    return instance_type, key.provider, key.purchase_option, key.operating_system


def _highest(rows: Sequence[PriceRow]) -> PriceRow:
    """Return the row of the highest rank. Mostly there is one row, and its rank needn't be
    known.
    """
    return rows[0] if len(rows) == 1 else max(rows, key=_rank)


def _rank(row: PriceRow) -> tuple[int, bool, int, bool, bool, datetime, int, str, Decimal, str]:
    """Return the row's rank. The fields up to `valid_from` decide; the others make the choice
    independent of the order of rows.
    """
    key = row.key
    named = (key.service != MACHINE, len(key.instance_type))
    place = (row.precedence, *named, bool(key.region), bool(key.zone))
    return (*place, row.valid_from, row.id or 0, row.source, row.usd_per_hour, str(row.valid_to))


def _check(row: PriceRow) -> None:
    name = f"price of {row.key.instance_type} in {row.key.region}"
    for field in ("valid_from", "valid_to"):
        time = getattr(row, field)
        if time is not None and time.tzinfo is None:
            raise ValueError(f"{name}: {field} has no time zone; give it in UTC")
    if row.valid_to is not None and row.valid_to <= row.valid_from:
        raise ValueError(f"{name}: valid_to must be after valid_from ({row.valid_from})")
    if row.usd_per_kwh is not None and not (row.usd_per_kwh.is_finite() and row.usd_per_kwh > 0):
        raise ValueError(f"{name}: usd_per_kwh is {row.usd_per_kwh}; it must be above 0")
    if row.pue is not None and not (row.pue.is_finite() and row.pue >= 1):
        raise ValueError(f"{name}: pue is {row.pue}; it must be at least 1")
    is_free_own_machine = row.usd_per_hour == 0 and row.precedence >= OWN_RATE
    if not row.usd_per_hour.is_finite() or not (row.usd_per_hour > 0 or is_free_own_machine):
        raise ValueError(f"{name}: usd_per_hour is {row.usd_per_hour}; it must be above 0")
