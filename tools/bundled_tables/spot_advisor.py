"""Spot prices from AWS's Spot Instance Advisor, for accelerated types without an observed one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date
from decimal import Decimal
from typing import Any

SEEN = date(2025, 7, 28)
"""The day of the advisor's figures in the facts."""
NANO = Decimal("0.000000001")


def advised_spot(
    prices: Iterable[dict[str, Any]], instances: Iterable[dict[str, str]]
) -> Iterator[dict[str, Any]]:
    """Yield the price of that day less the advisor's discount, as an estimate, where a region has
    an on-demand price and no observed spot price."""
    rows = [row for row in prices if row["service"] == "ec2"]
    observed = {_place(row) for row in rows if row["purchase_option"] == "spot"}
    listed = {_place(row): row for row in rows if _holds_then(row)}
    for each in instances:
        for name, value in each.items():
            region = name.removeprefix("spot_savings_pct_")
            place = region, each["instance_type"]
            is_new = region != name and value and place in listed and place not in observed
            if is_new and each["category"] == "accelerated":
                yield _discounted(listed[place], Decimal(value))


def _holds_then(row: dict[str, Any]) -> bool:
    is_past = bool(row["valid_to"]) and row["valid_to"] <= SEEN
    return row["purchase_option"] == "on_demand" and row["valid_from"] <= SEEN and not is_past


def _discounted(row: dict[str, Any], percent: Decimal) -> dict[str, Any]:
    usd = (row["usd_per_hour"] * (100 - percent) / 100).quantize(NANO).normalize()
    return {
        **row,
        "purchase_option": "spot",
        "usd_per_hour": usd,
        "valid_from": SEEN,
        "valid_to": "",
        "last_seen": SEEN,
        "estimated": 1,
        "source": f"AWS Spot Instance Advisor of {SEEN}: {percent} % below on demand",
        "sources": 1,
        "note": "",
    }


def _place(row: dict[str, Any]) -> tuple[str, str]:
    return row["region"], row["instance_type"]
