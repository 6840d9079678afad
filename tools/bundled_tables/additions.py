"""Prices and machines that the facts lack, from tables in a folder: this one by default.

`aws_regions.csv` has AWS's on-demand prices by region on one day, `more_prices.csv` further prices
(capacity blocks, spot, Google, Azure) with their days and sources, and `more_machines.csv` the
machines of them that the facts don't describe.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from advisor.pricing.providers import provider

SEEN = date(2026, 8, 26)
"""The day of `aws_regions.csv`."""
SOURCE = "instances.vantage.sh via tsaol/aws-gpu"
_SERIES = ("provider", "service", "region", "instance_type", "purchase_option")
HERE = Path(__file__).parent

Row = dict[str, Any]


def demand_prices(folder: Path) -> Iterator[tuple[str, str, Decimal]]:
    """Yield the instance type, region and price of AWS's machines with accelerators."""
    for line in _read(folder / "aws_regions.csv"):
        yield line["instance_type"], line["region"], Decimal(line["usd_per_hour"])


def add_prices(folder: Path, name: str, prices: list[Row]) -> None:
    """Add the provider's further prices. An open older row of the same series ends with the newer
    price."""
    for line in _read(folder / "more_prices.csv"):
        if line["provider"] != name:
            continue
        row = _price(line)
        for older in prices:
            is_same = all(older[column] == row[column] for column in _SERIES)
            if is_same and not older["valid_to"] and older["valid_from"] < row["valid_from"]:
                older["valid_to"] = row["valid_from"]
        prices.append(row)
    prices.sort(key=lambda row: (*(row[column] for column in _SERIES[1:]), row["valid_from"]))


def machines(folder: Path, name: str) -> list[Row]:
    """Return the provider's further machines, as rows of its hardware table."""
    lines = _read(folder / "more_machines.csv")
    return [_machine(line) for line in lines if line["provider"] == name]


def _price(line: dict[str, str]) -> Row:
    return {
        **line,
        "service": provider(line["provider"]).service_of(line["instance_type"]),
        "usd_per_hour": Decimal(line["usd_per_hour"]),
        "valid_from": date.fromisoformat(line["valid_from"]),
        "valid_to": "",
        "last_seen": date.fromisoformat(line["last_seen"]),
        "estimated": int(line["estimated"]),
        "sources": 1,
    }


def _machine(line: dict[str, str]) -> Row:
    return {name: value for name, value in line.items() if name != "provider"} | {"unlisted": 0}


def _read(path: Path) -> Iterator[dict[str, str]]:
    """Yield the lines of a table; none if the folder lacks it."""
    if path.exists():
        with path.open(newline="", encoding="utf-8") as lines:
            yield from csv.DictReader(lines)
