"""Candidate machines for a run, with time and cost, or the reason against them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from advisor.money import rounded_usd
from advisor.pricing.book import PriceBook, PricedAt
from advisor.pricing.catalogue import GIB, InstanceType
from advisor.pricing.staleness import staleness
from advisor.sizing.demand import BALANCED, Demand, Preset
from advisor.sizing.speed import Seconds, predicted_seconds

USABLE_MEMORY = 0.95
"""Usable share of the memory on the data sheet. Firmware and kernel take the rest."""


@dataclass(frozen=True)
class Candidate:
    """`node_count` machines of one type. Costs are USD per run; None: no price."""

    instance_type: str
    node_count: int
    purchase_option: str
    machine: InstanceType
    usd_per_hour: Decimal | None
    is_estimated_price: bool
    list_price_of: date | None
    """The day on which the price was last confirmed, if that is too long ago."""
    time_low_seconds: float
    time_mid_seconds: float
    time_high_seconds: float
    cost_low_usd: Decimal | None
    cost_mid_usd: Decimal | None
    cost_high_usd: Decimal | None
    rejected_because: str = ""

    def to_document(self) -> dict[str, Any]:
        """For a JSON column; money as text, so that no digit is lost."""
        return {
            "instance_type": self.instance_type,
            "node_count": self.node_count,
            "purchase_option": self.purchase_option,
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
        }


def candidates(
    demand: Demand,
    book: PriceBook,
    catalogue: Mapping[str, InstanceType],
    as_of: datetime,
    preset: Preset = BALANCED,
) -> list[Candidate]:
    """Every type of the provider, including the present one. Types that fit come first, then by
    cost.

    Args:
        as_of: the time whose prices and availability count; aware.

    Returns:
        Nothing if the present machine or its cores aren't in the catalogue, because there is
        nothing to scale from.
    """
    now = catalogue.get(demand.instance_type)
    if now is None or not now.physical_cores:
        return []
    others = (other for other in catalogue.values() if other.provider == now.provider)
    table = [_candidate(demand, book, now, other, as_of, preset) for other in others]
    return sorted(table, key=_order)


def _candidate(
    demand: Demand,
    book: PriceBook,
    now: InstanceType,
    other: InstanceType,
    as_of: datetime,
    preset: Preset,
) -> Candidate:
    name = demand.sold_as(other.name)
    priced = book.price_at(demand.price_key(name), as_of)
    seconds = predicted_seconds(demand, now, other)
    why = _why_not(demand, now, other, seconds, priced, as_of, preset)
    usd_per_hour = priced.row.usd_per_hour if priced else None
    return Candidate(
        instance_type=name,
        node_count=demand.node_count,
        purchase_option=demand.purchase_option,
        machine=other,
        usd_per_hour=usd_per_hour,
        is_estimated_price=bool(priced and (priced.row.estimated or priced.later)),
        list_price_of=_old_list_price(priced, as_of),
        time_low_seconds=seconds.low,
        time_mid_seconds=seconds.mid,
        time_high_seconds=seconds.high,
        cost_low_usd=_cost_usd(demand, usd_per_hour, seconds.low),
        cost_mid_usd=_cost_usd(demand, usd_per_hour, seconds.mid),
        cost_high_usd=_cost_usd(demand, usd_per_hour, seconds.high),
        rejected_because=why,
    )


def _old_list_price(priced: PricedAt | None, as_of: datetime) -> date | None:
    age = staleness(priced.row, as_of) if priced else None
    if priced is None or age is None or not age.is_stale or priced.row.seen_at is None:
        return None
    return priced.row.seen_at.date()


def _cost_usd(demand: Demand, usd_per_hour: Decimal | None, seconds: float) -> Decimal | None:
    if usd_per_hour is None:
        return None
    hours = Decimal(str(round(seconds, 6))) / 3600
    return rounded_usd(usd_per_hour * demand.node_count * hours)


def _why_not(
    demand: Demand,
    now: InstanceType,
    other: InstanceType,
    seconds: Seconds,
    priced: PricedAt | None,
    as_of: datetime,
    preset: Preset,
) -> str:
    """The first reason against it, hard constraints first; empty: none."""
    if not other.available_at(as_of.date()):
        return f"no longer available: last offered {other.last_seen}"
    if priced is None:
        return f"no price in {demand.region or 'an unknown region'}"
    if other.name == now.name:
        return ""
    if not other.physical_cores:
        return "its physical cores aren't known"
    return (
        _other_kind(demand, now, other)
        or _too_little_memory(demand, other, preset)
        or _too_few_cores(demand, now, other, preset)
        or _too_slow(demand, seconds, preset)
    )


def _other_kind(demand: Demand, now: InstanceType, other: InstanceType) -> str:
    if other.architecture != now.architecture:
        return f"{other.architecture} processor; the run uses {now.architecture} programs"
    if other.is_burstable and other.family != now.family:
        return "burstable: full speed lasts only as long as its credits"
    if not demand.gpus:
        return "has GPUs, which the run doesn't use" if other.gpu_count else ""
    if other.gpu_count < demand.gpus or other.gpu_fraction < now.gpu_fraction:
        return f"has fewer GPUs than the {demand.gpus} in use"
    if (other.gpu_model, other.gpu_memory_bytes) != (now.gpu_model, now.gpu_memory_bytes):
        return f"the run's speed on {other.gpu_model} was not measured"
    return ""


def _too_little_memory(demand: Demand, other: InstanceType, preset: Preset) -> str:
    needed = demand.memory_p99_bytes * (1 + preset.memory_headroom)
    usable = other.memory_bytes * USABLE_MEMORY
    if needed <= usable:
        return ""
    return f"too little memory: needs {needed / GIB:.1f} GiB, {usable / GIB:.1f} GiB usable"


def _too_few_cores(demand: Demand, now: InstanceType, other: InstanceType, preset: Preset) -> str:
    """As many cores as now are always enough."""
    if other.vcpus >= now.vcpus or demand.cores_busy_p95 <= preset.busy_target * other.vcpus:
        return ""
    return (
        f"too few cores: {demand.cores_busy_p95:.1f} busy of {other.vcpus} "
        f"is above the target of {100 * preset.busy_target:.0f} %"
    )


def _too_slow(demand: Demand, seconds: Seconds, preset: Preset) -> str:
    slowdown = seconds.mid / demand.duration_seconds - 1 if demand.duration_seconds else 0.0
    if slowdown <= preset.slowdown_limit + 1e-9:
        return ""
    limit = f"the limit is {100 * preset.slowdown_limit:.0f} %"
    return f"about {100 * slowdown:.0f} % slower; {limit}"


def _order(candidate: Candidate) -> tuple[bool, bool, Decimal, str]:
    cost = candidate.cost_mid_usd
    name = candidate.instance_type
    return bool(candidate.rejected_because), cost is None, cost or Decimal(0), name


def _text(usd: Decimal | None) -> str | None:
    return None if usd is None else f"{usd:f}"
