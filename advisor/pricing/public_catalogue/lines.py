"""Reads one provider's file of the public catalogue, line by line."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

REQUIRED = ("InstanceType", "AcceleratorName", "AcceleratorCount", "Price", "Region")
MOST_LINES = 1_000_000
MOST_USD = Decimal(10_000)
"""The most per hour. The most expensive machine with GPUs is at about $150."""
_MOST_NUMBER = Decimal(10_000_000)
_MOST_CHARACTERS = 64
_MIB = 1024**2
_LEAST_GPU_MIB = 1024
"""Some files give GiB in this field (80 for an A100), so a smaller value is not known."""
_SIZE = re.compile(r"'SizeInMiB': *(\d{1,9})(?![\d.])")


class CatalogueError(ValueError):
    """A file that can't be read. Names the file, the line and the field."""


@dataclass(frozen=True)
class CatalogueLine:
    """One machine in one zone. None: not stated, which is not 0."""

    instance_type: str
    """The instance type; empty for a GPU that is priced apart from its host."""
    accelerator: str
    """The accelerator; empty if there is none, or it isn't stated."""
    accelerators: Decimal
    """The number of accelerators; below 1 for a slice of one."""
    vcpus: Decimal | None
    memory_gib: Decimal | None
    gpu_memory_bytes: int | None
    """The memory of each GPU."""
    usd: Decimal | None
    spot_usd: Decimal | None
    region: str
    zone: str

    @property
    def is_tpu(self) -> bool:
        return any(n.lower().startswith("tpu") for n in (self.accelerator, self.instance_type))


def lines(file: Iterable[str], name: str) -> Iterator[CatalogueLine]:
    """Yield the lines of a file of the catalogue.

    Args:
        name: the file's, for errors.

    Raises:
        CatalogueError: not such a file, or a number that can't be read.
    """
    reader = csv.DictReader(file)
    try:
        _check_header(reader.fieldnames or (), name)
        for number, fields in enumerate(reader, 1):
            if number > MOST_LINES:
                raise CatalogueError(f"{name}: more than {MOST_LINES:,} lines")
            yield _line(fields, f"{name}, line {reader.line_num}")
    except (csv.Error, UnicodeDecodeError) as error:
        where = f"{name}, line {reader.line_num + 1}"
        raise CatalogueError(f"{where}: not readable as CSV: {error}") from None


def _check_header(columns: Iterable[str], name: str) -> None:
    missing = [column for column in REQUIRED if column not in columns]
    if missing:
        raise CatalogueError(f"{name}, line 1: column {missing[0]} is missing")


def _line(fields: dict[str, str | None], where: str) -> CatalogueLine:
    size = _SIZE.search(fields.get("GpuInfo") or "")
    mib = int(size[1]) if size else 0
    return CatalogueLine(
        instance_type=_text(fields, "InstanceType", where),
        accelerator=_text(fields, "AcceleratorName", where),
        accelerators=_number(fields, "AcceleratorCount", where) or Decimal(0),
        vcpus=_number(fields, "vCPUs", where),
        memory_gib=_number(fields, "MemoryGiB", where),
        gpu_memory_bytes=mib * _MIB if mib >= _LEAST_GPU_MIB else None,
        usd=_number(fields, "Price", where),
        spot_usd=_number(fields, "SpotPrice", where),
        region=_text(fields, "Region", where),
        zone=_text(fields, "AvailabilityZone", where),
    )


def _text(fields: dict[str, str | None], column: str, where: str) -> str:
    text = (fields.get(column) or "").strip()
    if len(text) > _MOST_CHARACTERS:
        raise CatalogueError(f"{where}: {column} is longer than {_MOST_CHARACTERS} characters")
    if not text.isprintable():
        raise CatalogueError(f"{where}: {column} contains an unprintable character")
    return text


def _number(fields: dict[str, str | None], column: str, where: str) -> Decimal | None:
    """Return the number, or None if the field is empty or missing: not known."""
    text = (fields.get(column) or "").strip()
    if not text:
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or not 0 <= value <= _MOST_NUMBER:
        raise CatalogueError(f"{where}: {column} is {text[:40]!r}; expected a number from 0 on")
    return value
