"""The bundled prices and machines of the clouds besides AWS.

From `gcp_azure.csv` of the facts (Google, Azure: prices without a region, so estimates), and from a
local copy of the public catalogue (`advisor.pricing.public_catalogue`), if there is one.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

from advisor.pricing.catalogue import GIB
from advisor.pricing.gpus import gpu_models
from advisor.pricing.machine import InstanceType
from advisor.pricing.providers import provider
from advisor.pricing.providers.gcp import with_gpus
from advisor.pricing.public_catalogue import machines, reading
from advisor.pricing.public_catalogue.lines import CatalogueLine
from advisor.pricing.public_catalogue.offers import SOURCE

from . import additions

CLOUDS = {"GCP": "gcp", "Azure": "azure"}
"""The clouds' names in the facts, with ours. Their other clouds have no instance types, or are in
the catalogue."""
FROM_CATALOGUE = ("lambda", "oci", "runpod", "nebius")
FIRST, LAST = date(2023, 1, 1), date(2025, 3, 7)
"""The first and last day of the facts' main list, whose rows have no date of their own."""

CONTRADICTED = {
    "Standard_ND96amsr_A100_v4": "contradicted by SkyPilot catalogue v6 of 2025: $32.77 in eastus",
}
"""The rows that differ from the catalogue's stored lines."""

_BOARDS = {"A100-80": "A100-80-PCIE", "V100-SXM2-16": ""}
_ON_SXM = ("Standard_ND96amsr_A100_v4",)

Row = dict[str, Any]
Tables = dict[str, tuple[list[Row], list[Row]]]
"""Provider -> prices and machines."""


def tables(facts: Path, more: Path, catalogue: Path | None, day: date) -> Tables:
    """Return the tables of all clouds.

    Args:
        more: the folder of `additions`.
        day: of the catalogue's copy.
    """
    built: Tables = {}
    with (facts / "gcp_azure.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["instance_type"]]
    for cloud, name in CLOUDS.items():
        # The first row of a machine is the main list's.
        ours = {_name(name, row): row for row in reversed(rows) if row["cloud"] == cloud}
        prices = [_price(name, each, row) for each, row in sorted(ours.items())]
        hardware = [_hardware(name, each, row) for each, row in sorted(ours.items())]
        hardware = [row for row in hardware if "+" not in row["instance_type"]]
        additions.add_prices(more, name, prices)
        built[name] = prices, [*hardware, *additions.machines(more, name)]
    for name in FROM_CATALOGUE if catalogue else ():
        assert catalogue is not None  # noqa: S101 - for the type checker
        built[name] = _of_catalogue(catalogue / name / "vms.csv", name, day)
    return built


def _name(cloud: str, row: Row) -> str:
    """Return the name that the cloud's metadata service uses."""
    if cloud == "azure":
        return f"Standard_{row['instance_type'].replace(' ', '_')}"
    if row["instance_type"].startswith("n1-"):
        return with_gpus(row["instance_type"], int(float(row["gpu_count"])), row["gpu_key"])
    return str(row["instance_type"])


def _price(cloud: str, name: str, row: Row) -> Row:
    first, last = _days(row["as_of"])
    return _price_row(cloud, "", name, row["on_demand_usd_h"], first, last, _source(row), 1)


def _days(as_of: str) -> tuple[date, date]:
    if ".." in as_of:
        return FIRST, LAST
    day = date(int(as_of[:4]), 1, 1)
    return day, day


def _source(row: Row) -> str:
    return f"{row['source']}, cheapest US region"


def _price_row(
    cloud: str,
    region: str,
    name: str,
    usd: object,
    first: date,
    last: date,
    source: str,
    estimated: int,
) -> Row:
    return {
        "provider": cloud,
        "service": provider(cloud).service_of(name),
        "region": region,
        "instance_type": name,
        "purchase_option": "on_demand",
        "usd_per_hour": usd,
        "valid_from": first,
        "valid_to": "",
        "last_seen": last,
        "estimated": estimated,
        "source": source,
        "sources": 1,
        "note": CONTRADICTED.get(name, ""),
    }


def _hardware(cloud: str, name: str, row: Row) -> Row:
    first, last = _days(row["as_of"])
    count, vcpus = int(float(row["gpu_count"])), int(float(row["vcpus"]))
    is_google = cloud == "gcp"
    return {
        "instance_type": name,
        "vcpus": vcpus,
        "physical_cores": vcpus // 2 if is_google else 0,
        "memory_gib": float(row["memory_gib"]),
        "arch": "x86_64" if is_google else "",
        "gpu_vendor": "NVIDIA",
        "gpu_model": row["gpu_model"].partition(" (")[0],
        "gpu_key": _gpu_key(name, row["gpu_key"]),
        "gpu_count": count,
        "gpu_memory_gib_each": float(row["gpu_memory_gb_total"]) / count,
        "efa": 0,
        "first_seen": first,
        "last_seen": last,
        "unlisted": 0,
        "source": _source(row),
    }


def _gpu_key(name: str, key: str) -> str:
    """The facts name an A100 without its board, which is PCIe in Azure's NC machines, and a V100
    with one that Azure doesn't confirm."""
    known = "A100-80-SXM" if name in _ON_SXM else _BOARDS.get(key, key)
    return known if known in gpu_models() else ""


def _of_catalogue(path: Path, cloud: str, day: date) -> tuple[list[Row], list[Row]]:
    with path.open(newline="", encoding="utf-8") as file:
        skipped: Counter[str] = Counter()
        found = [m for m in reading.machines(file, str(path), cloud, (), skipped) if m.usd]
    by_type: dict[str, list[CatalogueLine]] = defaultdict(list)
    for line in found:
        by_type[line.instance_type].append(line)
    prices = [row for lines in by_type.values() for row in _catalogue_prices(cloud, lines, day)]
    when = datetime.combine(day, time(), UTC).date()
    described = (machines.machine(lines[0], cloud, when) for lines in by_type.values())
    return prices, [_described(each) for each in described if each]


def _catalogue_prices(cloud: str, lines: Iterable[CatalogueLine], day: date) -> Iterator[Row]:
    """One row for any region if all regions have one price."""
    usd = {line.region: line.usd for line in lines}
    name = next(iter(lines)).instance_type
    regions = usd if len(usd) == 1 or len(set(usd.values())) > 1 else {"": next(iter(usd.values()))}
    for region, price in regions.items():
        yield _price_row(cloud, region, name, price, day, day, f"{SOURCE} v8", 0)


def _described(machine: InstanceType) -> Row:
    return {
        "instance_type": machine.name,
        "vcpus": machine.vcpus,
        "physical_cores": machine.physical_cores,
        "memory_gib": machine.memory_bytes / GIB,
        "arch": machine.architecture,
        "gpu_vendor": machine.gpu_vendor,
        "gpu_model": machine.gpu_model,
        "gpu_key": machine.gpu_key,
        "gpu_count": machine.gpu_count,
        "gpu_memory_gib_each": machine.gpu_memory_bytes / GIB,
        "gpu_partition": machine.gpu_fraction,
        "efa": 0,
        "first_seen": machine.first_seen,
        "last_seen": machine.last_seen,
        "unlisted": 0,
        "source": f"{SOURCE} v8",
    }
