"""The price rows bundled with this version: dated list prices with their sources."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path

from advisor.pricing.price import BUNDLED, PriceKey, PriceRow

TABLES = Path(__file__).parent / "tables"


@cache
def bundled_prices() -> tuple[PriceRow, ...]:
    """Return every bundled row. A spot row, or one whose region is assumed, is `estimated`."""
    return tuple(_row(line) for line in read_tables("prices.csv"))


def read_tables(name: str) -> Iterator[dict[str, str]]:
    """Yield the lines of this table from every provider that bundles it, with `provider`."""
    for path in sorted(TABLES.glob(f"*/{name}")):
        with path.open(newline="", encoding="utf-8") as lines:
            yield from ({"provider": path.parent.name, **line} for line in csv.DictReader(lines))


def _row(line: dict[str, str]) -> PriceRow:
    return PriceRow(
        key=PriceKey(
            provider=line["provider"],
            service=line["service"],
            region=line["region"],
            instance_type=line["instance_type"],
            purchase_option=line["purchase_option"],
        ),
        usd_per_hour=Decimal(line["usd_per_hour"]),
        valid_from=_midnight(line["valid_from"]),
        valid_to=_midnight(line["valid_to"]) if line["valid_to"] else None,
        source=line["source"],
        precedence=BUNDLED,
        estimated=line["estimated"] == "1",
        seen_at=_midnight(line["last_seen"]),
        note=line.get("note") or "",
    )


def _midnight(day: str) -> datetime:
    return datetime.fromisoformat(day).replace(tzinfo=UTC)
