"""The price explorer: each machine's list price and the workspace's rate on a day."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from advisor.pricing.availability import Availability, availability
from advisor.pricing.book import PriceBook, PricedAt
from advisor.pricing.catalogue import catalogue
from advisor.pricing.machine import InstanceType
from advisor.pricing.price import PriceKey
from advisor.pricing.providers import machine_name
from advisor.pricing.staleness import Staleness, staleness
from webapp.accounts.models import Workspace
from webapp.prices import scope
from webapp.prices.book import plain_discount, to_price_row
from webapp.prices.machines import as_offered, family_days
from webapp.prices.models import Machine, Price

KEY = (
    "instance_type",
    "region",
    "zone",
    "service",
    "purchase_option",
    "provider",
    "operating_system",
)


@dataclass(frozen=True)
class Question:
    """The search; an empty field means "any"."""

    text: str = ""
    region: str = ""
    service: str = ""
    option: str = ""
    day: date | None = None
    """The day of the prices; None for now."""

    @property
    def moment(self) -> datetime:
        """The end of the day, or now."""
        if self.day is None or self.day >= timezone.now().date():
            return timezone.now()
        return datetime.combine(self.day, time(), UTC) + timedelta(days=1, microseconds=-1)


@dataclass(frozen=True)
class Row:
    """One machine of the list."""

    key: PriceKey
    listed: PricedAt | None
    yours: PricedAt | None
    machine: InstanceType | None
    age: Staleness | None
    availability: Availability

    @property
    def has_own_rate(self) -> bool:
        return self.yours is not None and not self.yours.row.is_list

    @property
    def shown(self) -> PricedAt | None:
        """The price whose source and dates are shown."""
        return self.listed or self.yours

    @property
    def list_usd_per_gpu_hour(self) -> Decimal | None:
        if self.listed is None or self.machine is None or not self.machine.gpu_count:
            return None
        gpus = Decimal(self.machine.gpu_count) * Decimal(str(self.machine.gpu_fraction))
        return self.listed.row.usd_per_hour / gpus


def keys(workspace: Workspace, question: Question) -> QuerySet[Price, dict[str, Any]]:
    """Return the keys that have a price at that time, by provider and type."""
    moment = question.moment
    rows: QuerySet[Price] = scope.prices_of(workspace).filter(
        Q(valid_to=None) | Q(valid_to__gt=moment), valid_from__lte=moment
    )
    if question.text:
        rows = rows.filter(instance_type__icontains=question.text)
    for name, value in (
        ("region", question.region),
        ("service", question.service),
        ("purchase_option", question.option),
    ):
        if value:
            rows = rows.filter(**{name: value})
    priced: QuerySet[Price, dict[str, Any]] = (
        rows.values(*KEY).distinct().order_by("provider", *KEY)
    )
    return priced


def rows(
    workspace: Workspace, keys_of_page: Sequence[dict[str, Any]], moment: datetime
) -> list[Row]:
    """Return the page's keys with their prices, in at most four queries."""
    wanted = [PriceKey(**key) for key in keys_of_page]
    names = {key.instance_type for key in wanted}
    prices = scope.prices_of(workspace).filter(Q(instance_type__in=names) | Q(instance_type=""))
    discounts = [plain_discount(row) for row in scope.discounts_of(workspace)]
    book = PriceBook([to_price_row(row) for row in prices], discounts)
    at_list, machines = book.at_list(), _machines(workspace, wanted)
    return [_row(key, book, at_list, machines.get(key), moment) for key in wanted]


def _row(
    key: PriceKey,
    book: PriceBook,
    at_list: PriceBook,
    machine: InstanceType | None,
    moment: datetime,
) -> Row:
    listed = at_list.price_at(key, moment)
    return Row(
        key=key,
        listed=listed,
        yours=book.price_at(key, moment),
        machine=catalogue().get(key.instance_type),
        age=staleness(listed.row, timezone.now()) if listed else None,
        availability=_availability(machine, listed, moment),
    )


def _unlisted(wanted: Sequence[PriceKey]) -> dict[tuple[str, str], Machine]:
    """Return the (type, region) that the region's newest list lacks."""
    names = {machine_name(key.instance_type) for key in wanted}
    missing = scope.machines().filter(instance_type__in=names, gone_at__isnull=False)
    return {(row.instance_type, row.region): row for row in missing}


def _machines(workspace: Workspace, wanted: Sequence[PriceKey]) -> dict[PriceKey, InstanceType]:
    """Return the machines that are described, as the newest list of the key's region has them, and
    with the last run of the workspace if it lacks them.
    """
    unlisted = _unlisted(wanted)
    found = {key: machine for key in wanted if (machine := _machine(key, unlisted))}
    missing = [each for each in found.values() if each.is_unlisted]
    days = family_days(workspace, {key.region for key in found}, missing)
    return {
        key: replace(each, ran_on=days.get((each.family, key.region)))
        for key, each in found.items()
    }


def _machine(key: PriceKey, unlisted: Mapping[tuple[str, str], Machine]) -> InstanceType | None:
    name = machine_name(key.instance_type)
    machine, row = catalogue().get(name), unlisted.get((name, key.region))
    if row is None:
        return machine
    return as_offered(machine or InstanceType.from_document(row.hardware), row)


def _availability(
    machine: InstanceType | None, listed: PricedAt | None, moment: datetime
) -> Availability:
    """Return the machine's availability by lists, runs and the price's date; a type that nothing
    describes counts as offered.
    """
    if machine is None:
        return Availability(True)
    seen_at = listed.row.seen_at if listed else None
    return availability(machine, moment.date(), seen_at.date() if seen_at else None)


def choices(workspace: Workspace) -> dict[str, list[str]]:
    """Return the regions, services and purchase options that have prices."""
    known = scope.prices_of(workspace)
    return {
        name: sorted(filter(None, known.values_list(name, flat=True).distinct()))
        for name in ("region", "service", "purchase_option")
    }


def machines_of(instance_type: str) -> list[Machine]:
    """Return the regions in which a type was listed."""
    return list(scope.machines().filter(instance_type=machine_name(instance_type)))


def hardware(instance_type: str) -> InstanceType | None:
    """Return the bundled description; for newer types the refreshed one."""
    bundled = catalogue().get(instance_type)
    listed_rows = machines_of(instance_type)
    return bundled or (InstanceType.from_document(listed_rows[0].hardware) if listed_rows else None)


def last_asked() -> tuple[datetime | None, list[str]]:
    """Return when prices were last refreshed, and what failed since."""
    refreshes = list(scope.refreshes())
    finished = [each.finished_at for each in refreshes if each.finished_at]
    errors = [f"{each.name}: {each.error}" for each in refreshes if each.error]
    return max(finished, default=None), errors
