"""Prices as CSV: import and export of a workspace's rates, and other exports."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import TextIO

from advisor.money import parse_usd, plain_usd
from advisor.pricing.gpus import gpu_model
from advisor.pricing.price import OWN_RATE, PriceKey, PriceRow
from advisor.pricing.providers import provider
from advisor.pricing.providers.on_premises import GPU_HOUR
from advisor.pricing.providers.on_premises import PROVIDER as ON_PREMISES

COLUMNS = (
    "provider", "service", "region", "zone", "instance_type", "purchase_option",
    "operating_system", "usd_per_hour", "valid_from", "valid_to", "source", "estimated",
    "usd_per_kwh", "pue",
)  # fmt: skip
REQUIRED = ("provider", "service", "usd_per_hour", "valid_from")
DEFAULTS = {"purchase_option": "on_demand", "operating_system": "linux"}
MOST_ROWS = 10_000
MOST_CHARACTERS = {"source": 200, "region": 64, "zone": 64, "instance_type": 64}
_SHORT = 32
MOST_USD = Decimal(1_000_000)
"""A higher hourly price is a typing error."""
MOST_USD_PER_KWH, MOST_PUE = Decimal(100), Decimal(10)
"""Higher figures are typing errors."""
_PUE_DECIMALS = 3
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class RefusedLine:
    """A line that can't be read, with the field and the expected value. The header is line 1."""

    line: int
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.reason}"


def read(file: TextIO) -> tuple[list[PriceRow], list[RefusedLine]]:
    """Parse own rates from CSV with a header. Invalid lines are reported, the others are kept.

    Required are `provider`, `service`, `usd_per_hour` and `valid_from`. See `COLUMNS` for the rest.
    Nothing after a line that is no CSV can be read.
    """
    rows: list[PriceRow] = []
    refused: list[RefusedLine] = []
    reader = csv.DictReader(file, skipinitialspace=True)
    try:
        _read(reader, rows, refused)
    except csv.Error as error:
        refused.append(RefusedLine(reader.line_num + 1, f"not readable as CSV: {error}"))
    return rows, refused


def _read(reader: csv.DictReader[str], rows: list[PriceRow], refused: list[RefusedLine]) -> None:
    missing = [name for name in REQUIRED if name not in (reader.fieldnames or ())]
    unknown = [name for name in reader.fieldnames or () if name not in COLUMNS]
    if missing or unknown:
        refused.append(RefusedLine(1, _wrong_header(missing, unknown)))
        return
    for line in reader:
        if len(rows) + len(refused) >= MOST_ROWS:
            refused.append(RefusedLine(reader.line_num, f"more than {MOST_ROWS:,} lines"))
            return
        try:
            rows.append(own_rate(line))
        except ValueError as error:
            refused.append(RefusedLine(reader.line_num, str(error)))


def _wrong_header(missing: list[str], unknown: list[str]) -> str:
    parts = [f"column {name} is missing" for name in missing]
    parts += [f"unknown column {name}; known columns: {', '.join(COLUMNS)}" for name in unknown[:1]]
    return "; ".join(parts)


def own_rate(fields: Mapping[str, str | None]) -> PriceRow:
    """Return a workspace's own price from text fields.

    Raises:
        ValueError: names the field and the expected value.
    """
    texts = {name: _plain((fields.get(name) or "").strip()) for name in COLUMNS}
    texts |= {name: texts[name] or default for name, default in DEFAULTS.items()}
    for name, value in texts.items():
        if not value.isprintable():
            raise ValueError(f"{name} contains an unprintable character")
        if len(value) > MOST_CHARACTERS.get(name, _SHORT):
            raise ValueError(
                f"{name} is longer than {MOST_CHARACTERS.get(name, _SHORT)} characters"
            )
    for name in ("provider", "service"):
        if not texts[name]:
            raise ValueError(f"{name} is empty")
    start = _day("valid_from", texts["valid_from"])
    end = _day("valid_to", texts["valid_to"]) if texts["valid_to"] else None
    if end is not None and end <= start:
        raise ValueError("valid_to must be after valid_from")
    usd_per_kwh, pue = _electricity(texts)
    return PriceRow(
        key=_key(texts),
        usd_per_hour=_usd(texts["usd_per_hour"]),
        valid_from=start,
        valid_to=end,
        source=texts["source"] or "your rate",
        precedence=OWN_RATE,
        estimated=texts["estimated"].lower() in ("1", "true", "yes"),
        usd_per_kwh=usd_per_kwh,
        pue=pue,
    )


def _electricity(texts: Mapping[str, str]) -> tuple[Decimal | None, Decimal | None]:
    """Return USD per kWh and PUE of an own machine; None if electricity isn't charged apart."""
    if not texts["usd_per_kwh"]:
        if texts["pue"]:
            raise ValueError("pue needs usd_per_kwh; enter both, or leave both empty")
        return None, None
    if texts["provider"] != ON_PREMISES.name:
        raise ValueError("usd_per_kwh is for your own machines; a cloud's price includes it")
    try:
        usd = parse_usd(texts["usd_per_kwh"], MOST_USD_PER_KWH)
    except ValueError as error:
        raise ValueError(f"usd_per_kwh {error}") from None
    if not usd:
        raise ValueError("usd_per_kwh is 0; leave it empty if electricity isn't charged apart")
    return usd, _pue(texts["pue"] or "1")


def _pue(text: str) -> Decimal:
    try:
        pue = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"pue is {text!r}; write it as 1.4") from None
    if not pue.is_finite() or not 1 <= pue <= MOST_PUE:
        raise ValueError(f"pue is {text}; it must be between 1 and {MOST_PUE}")
    if int(pue.normalize().as_tuple().exponent) < -_PUE_DECIMALS:
        raise ValueError("pue has more than three decimals")
    return pue


def _key(texts: Mapping[str, str]) -> PriceKey:
    name = texts["instance_type"]
    if texts["service"] == GPU_HOUR:
        known = gpu_model(name)
        name = known.key if known else name
    seller = provider(texts["provider"])
    if seller.needs_instance_type and not name:
        raise ValueError(f"instance_type is empty; {seller.title} prices are per instance type")
    if texts["zone"] and not texts["region"]:
        raise ValueError("region is empty; a zone needs its region")
    return PriceKey(
        provider=texts["provider"],
        service=texts["service"],
        region=texts["region"],
        instance_type=name,
        purchase_option=texts["purchase_option"],
        zone=texts["zone"],
        operating_system=texts["operating_system"],
    )


def _usd(text: str) -> Decimal:
    try:
        return parse_usd(text, MOST_USD)
    except ValueError as error:
        raise ValueError(f"usd_per_hour {error}") from None


def _day(name: str, text: str) -> datetime:
    """Parse a day (midnight UTC) or a moment (UTC if it has no time zone)."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{name} is {text!r}; write it as 2026-01-31") from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def lines(rows: Iterable[PriceRow]) -> Iterator[str]:
    """Yield CSV with a header, one line at a time. `read` parses it."""
    yield _line(COLUMNS)
    for row in rows:
        key = asdict(row.key)
        price = plain_usd(row.usd_per_hour)
        times = (_moment(row.valid_from), _moment(row.valid_to))
        electricity = ("" if x is None else plain_usd(x) for x in (row.usd_per_kwh, row.pue))
        own = (price, *times, row.source, int(row.estimated), *electricity)
        yield _line((*(key[name] for name in COLUMNS[: len(key)]), *own))


def _moment(when: datetime | None) -> str:
    if when is None:
        return ""
    when = when.astimezone(UTC)
    return when.date().isoformat() if when.time() == datetime.min.time() else when.isoformat()


class _Line:
    """A file object for the csv module that keeps one line."""

    def write(self, text: str) -> str:
        return text


def _line(values: Iterable[object]) -> str:
    written: str = csv.writer(_Line(), lineterminator="\n").writerow(map(_harmless, values))
    return written


def _harmless(value: object) -> object:
    """Put an apostrophe before texts that a spreadsheet would read as a formula."""
    is_formula = isinstance(value, str) and value.startswith(_FORMULA)
    return f"'{value}" if is_formula else value


def _plain(text: str) -> str:
    return text[1:] if text.startswith(tuple(f"'{sign}" for sign in _FORMULA)) else text
