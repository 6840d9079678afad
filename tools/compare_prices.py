"""Compares random bundled prices with what other public sources saw.

    python -m tools.compare_prices FILE [FILE ...] [--rows 200] [--seed 0] [--check]

Each FILE is CSV with `instance_type`, `region`, `usd_per_hour`, `first_seen`, `last_seen` and
`source`, the purchase option in `purchase_option` or `price_kind`, and the provider in `provider`
(none: AWS). The rows are drawn from the whole bundled table, so many have no second source: nothing
confirms these. A figure is compared with the row that Trimtab would use on its day. `--check` fails
if fewer than 98 % of the drawn rows with a second source agree.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

from advisor.pricing.book import PriceBook
from advisor.pricing.bundled import bundled_prices
from advisor.pricing.machine import DEFAULT_PROVIDER
from advisor.pricing.price import PriceKey, PriceRow
from advisor.pricing.providers import provider

SAME = Decimal("0.001")
"""Sources that differ by less only rounded differently."""
PROMISED = Decimal("0.98")


@dataclass(frozen=True)
class Figure:
    """A price as another source saw it, from `first` to `last`."""

    key: PriceKey
    usd_per_hour: Decimal
    first: date
    last: date
    source: str


@dataclass(frozen=True)
class Comparison:
    """A bundled row beside another source's figure."""

    row: PriceRow
    figure: Figure

    @property
    def difference(self) -> Decimal:
        """Return the figure over the row's price, less 1."""
        return self.figure.usd_per_hour / self.row.usd_per_hour - 1

    @property
    def agrees(self) -> bool:
        return abs(self.difference) <= SAME

    @property
    def is_of_the_time(self) -> bool:
        """Return whether the figure was seen while the row was valid."""
        return _days_apart(self.row, self.figure) == 0

    def line(self) -> str:
        figure = self.figure
        verdict = "agrees" if self.agrees else f"differs by {100 * self.difference:+.1f} %"
        when = "" if self.is_of_the_time else ", of another time"
        return (
            f"{_words(self.row)}; ${figure.usd_per_hour} "
            f"({figure.source}, {figure.first} to {figure.last}{when}): {verdict}"
        )


def read_figures(paths: Iterable[Path]) -> list[Figure]:
    """Return the figures of all files."""
    found: list[Figure] = []
    for path in paths:
        with path.open(newline="", encoding="utf-8") as lines:
            found += map(_figure, csv.DictReader(lines))
    return found


def compare(rows: Sequence[PriceRow], figures: Iterable[Figure]) -> list[Comparison]:
    """Compare the rows with the figures of other sources: each with the nearest in time."""
    book = PriceBook(rows)
    found: dict[PriceRow, list[Figure]] = defaultdict(list)
    for figure in figures:
        priced = book.price_at(figure.key, datetime.combine(figure.last, time(), UTC))
        if priced and figure.source not in priced.row.source:
            found[priced.row].append(figure)
    return [
        Comparison(row, min(seen, key=lambda figure: _days_apart(row, figure)))
        for row, seen in found.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true")
    asked = parser.parse_args()
    every = bundled_prices()
    known = {each.row: each for each in compare(every, read_figures(asked.files))}
    drawn = random.Random(asked.seed).sample(every, min(asked.rows, len(every)))  # noqa: S311
    for row in drawn:
        print(known[row].line() if row in known else f"{_words(row)}: no second source")
    compared = [known[row] for row in drawn if row in known]
    _print_summary(drawn, compared)
    print(f"of all {len(every):,} rows, {len(known):,} have a second source")
    agreed = sum(comparison.agrees for comparison in compared)
    is_kept = bool(compared) and agreed >= PROMISED * len(compared)
    return 0 if is_kept or not asked.check else 1


def _print_summary(drawn: Sequence[PriceRow], chosen: Sequence[Comparison]) -> None:
    agreed = sum(each.agrees for each in chosen)
    print(
        f"\nof {len(drawn):,} random rows, {agreed} agree within {100 * SAME:.1f} %, "
        f"{len(chosen) - agreed} differ, {len(drawn) - len(chosen):,} have no second source"
    )
    single = [row for row in drawn if row not in {each.row for each in chosen}]
    for option, count in Counter(row.key.purchase_option for row in single).most_common():
        print(f"  {count:4} without a second source are {option.replace('_', ' ')} prices")
    of_the_time = [each for each in chosen if each.is_of_the_time]
    same = sum(each.agrees for each in of_the_time)
    print(f"seen while the row was valid: {same} of {len(of_the_time)} agree")
    for source, count in Counter(each.figure.source for each in chosen).most_common():
        days = [each.figure.last for each in chosen if each.figure.source == source]
        print(f"  {count:4} by {source}, last seen {min(days)} to {max(days)}")


def _words(row: PriceRow) -> str:
    key = row.key
    return (
        f"{key.provider} {key.instance_type} {key.region or 'any region'} {key.purchase_option}: "
        f"${row.usd_per_hour} ({row.source}, {row.valid_from.date()} to {_last(row)})"
    )


def _figure(line: Mapping[str, str]) -> Figure:
    seller, name = line.get("provider") or DEFAULT_PROVIDER, line["instance_type"]
    option = line.get("purchase_option") or line.get("price_kind") or "on_demand"
    key = PriceKey(seller, provider(seller).service_of(name), line["region"], name, option)
    first, last = (_day(line[column]) for column in ("first_seen", "last_seen"))
    return Figure(key, Decimal(line["usd_per_hour"]), first, last, line["source"])


def _day(text: str) -> date:
    """Return the first day of `2025-10`, or the day itself."""
    return date.fromisoformat(text if len(text) > len("2025-10") else f"{text}-01")


def _days_apart(row: PriceRow, figure: Figure) -> int:
    """Return the days between the row's validity and the figure's time; 0: they overlap."""
    before = (row.valid_from.date() - figure.last).days
    after = (figure.first - _last(row)).days
    return max(before, after, 0)


def _last(row: PriceRow) -> date:
    """Return the last day on which the row is known to be valid."""
    seen = (row.seen_at or row.valid_from).date()
    return max(seen, row.valid_from.date()) if row.valid_to is None else row.valid_to.date()


if __name__ == "__main__":
    sys.exit(main())
