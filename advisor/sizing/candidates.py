"""Candidate machines for a run, with time and cost, or the reason against them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from advisor.money import rounded_usd
from advisor.pricing.book import PriceBook, PricedAt
from advisor.pricing.machine import InstanceType
from advisor.pricing.staleness import staleness
from advisor.sizing.constraints import is_offered, too_little, too_slow
from advisor.sizing.demand import BALANCED, Demand, Preset
from advisor.sizing.layout import NodeLayout, layout, layouts
from advisor.sizing.speed import Seconds, predicted_seconds


@dataclass(frozen=True)
class Fit:
    """The work of a run on some machines of a type, before prices."""

    machine: InstanceType
    planned: NodeLayout
    seconds: Seconds
    is_present: bool
    misfit: str
    """The reason why it can't do the work; empty if it can."""


@dataclass(frozen=True)
class Candidate:
    """`node_count` machines of one type. Costs are USD per run; None: no price."""

    instance_type: str
    node_count: int
    purchase_option: str
    region: str
    machine: InstanceType
    planned: NodeLayout
    usd_per_hour: Decimal | None
    is_estimated_price: bool
    list_price_of: date | None
    """The day on which the price was last confirmed, if that is too long ago."""
    time_low_seconds: float
    time_mid_seconds: float
    time_high_seconds: float
    cost_mid_usd: Decimal | None
    rejected_because: str = ""
    to_check: str = ""
    """The reason that speaks for it although its provider's list lacks it; empty if it is
    listed."""

    @property
    def cost_low_usd(self) -> Decimal | None:
        """Return the cost at the low end. Like `cost_high_usd`, it is asked only of the few that
        are shown.
        """
        return _cost_usd(self.planned, self.usd_per_hour, self.time_low_seconds)

    @property
    def cost_high_usd(self) -> Decimal | None:
        return _cost_usd(self.planned, self.usd_per_hour, self.time_high_seconds)

    def to_document(self) -> dict[str, Any]:
        """Return the candidate for a JSON column; money as text, so that no digit is lost."""
        return {
            "instance_type": self.instance_type,
            "node_count": self.node_count,
            "purchase_option": self.purchase_option,
            "region": self.region,
            "vcpus": self.machine.vcpus,
            "memory_bytes": self.machine.memory_bytes,
            "gpus": self.machine.gpu_count,
            "gpu_model": self.machine.gpu_model,
            "usd_per_hour": _text(self.usd_per_hour),
            "list_price_of": self.list_price_of and self.list_price_of.isoformat(),
            "time_low_seconds": round(self.time_low_seconds, 3),
            "time_mid_seconds": round(self.time_mid_seconds, 3),
            "time_high_seconds": round(self.time_high_seconds, 3),
            "cost_low_usd": _text(self.cost_low_usd),
            "cost_mid_usd": _text(self.cost_mid_usd),
            "cost_high_usd": _text(self.cost_high_usd),
            "rejected_because": self.rejected_because,
            "to_check": self.to_check,
        }


def candidates(
    demand: Demand,
    book: PriceBook,
    catalogue: Mapping[str, InstanceType],
    as_of: datetime,
    preset: Preset = BALANCED,
) -> list[Candidate]:
    """Return every type of the provider, including the present one, as many nodes as now, and fewer
    if the work fits. Those that fit come first, then by cost.

    Args:
        as_of: the time whose prices and availability count; aware.

    Returns:
        Nothing if the present machine or its cores aren't in the catalogue, because there is
        nothing to scale from.
    """
    table = [
        price_candidate(fit, demand, book, as_of, preset.slowdown_limit)
        for fit in fits(demand, catalogue, preset)
    ]
    return sorted(table, key=order)


def fits(demand: Demand, catalogue: Mapping[str, InstanceType], preset: Preset) -> list[Fit]:
    """Return the work on every type of the provider, whatever it costs."""
    now = catalogue.get(demand.instance_type)
    if now is None or not now.physical_cores:
        return []
    others = (other for other in catalogue.values() if other.provider == now.provider)
    return [
        _fit(demand, now, other, planned, preset)
        for other in others
        for planned in layouts(demand, other, preset)
    ]


def candidate_on(
    demand: Demand,
    now: InstanceType,
    other: InstanceType,
    node_count: int,
    book: PriceBook,
    as_of: datetime,
    preset: Preset,
) -> Candidate:
    """Return the candidate of so many machines of one type."""
    fit = _fit(demand, now, other, layout(demand, other, node_count), preset)
    return price_candidate(fit, demand, book, as_of, preset.slowdown_limit)


def _fit(
    demand: Demand, now: InstanceType, other: InstanceType, planned: NodeLayout, preset: Preset
) -> Fit:
    is_present = other.name == now.name and planned.node_count == demand.node_count
    why = "" if is_present else too_little(demand, now, other, planned, preset)
    return Fit(other, planned, predicted_seconds(demand, now, other, planned), is_present, why)


def price_candidate(
    fit: Fit,
    demand: Demand,
    book: PriceBook,
    as_of: datetime,
    slowdown_limit: float,
    factor: float = 1.0,
) -> Candidate:
    """Return the candidate, bought as `demand` says.

    Args:
        factor: all times are so much longer, such as by interruptions.
    """
    name = demand.sold_as(fit.machine.name)
    found = book.price_at(demand.price_key(name), as_of)
    seconds = Seconds(*(factor * s for s in (fit.seconds.low, fit.seconds.mid, fit.seconds.high)))
    known = is_offered(demand, fit.machine, found.row if found else None, as_of)
    why = known.why_not or ("" if found else no_price_in(demand.region)) or fit.misfit
    if not why and not fit.is_present:
        why = too_slow(demand, seconds, slowdown_limit)
    usd_per_hour = found.row.usd_per_hour if found else None
    return Candidate(
        instance_type=name,
        node_count=fit.planned.node_count,
        purchase_option=demand.purchase_option,
        region=demand.region,
        machine=fit.machine,
        planned=fit.planned,
        usd_per_hour=usd_per_hour,
        is_estimated_price=bool(found and (found.row.estimated or found.later)),
        list_price_of=_old_list_price(found, as_of),
        time_low_seconds=seconds.low,
        time_mid_seconds=seconds.mid,
        time_high_seconds=seconds.high,
        cost_mid_usd=_cost_usd(fit.planned, usd_per_hour, seconds.mid),
        rejected_because=why,
        to_check=known.to_check,
    )


def no_price_in(region: str) -> str:
    return f"no price in {region or 'an unknown region'}"


def _old_list_price(priced: PricedAt | None, as_of: datetime) -> date | None:
    age = staleness(priced.row, as_of) if priced else None
    if priced is None or age is None or not age.is_stale or priced.row.seen_at is None:
        return None
    return priced.row.seen_at.date()


def _cost_usd(planned: NodeLayout, usd_per_hour: Decimal | None, seconds: float) -> Decimal | None:
    if usd_per_hour is None:
        return None
    hours = Decimal(str(round(seconds, 6))) / 3600
    return rounded_usd(usd_per_hour * planned.node_count * hours)


def order(candidate: Candidate) -> tuple[bool, bool, Decimal, str]:
    """Sort those that fit first, then by cost."""
    cost = candidate.cost_mid_usd
    name = candidate.instance_type
    return bool(candidate.rejected_because), cost is None, cost or Decimal(0), name


def _text(usd: Decimal | None) -> str | None:
    return None if usd is None else f"{usd:f}"
