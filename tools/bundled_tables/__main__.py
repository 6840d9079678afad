"""Builds the bundled price and hardware tables from a folder of dated figures.

`python -m tools.bundled_tables --facts DIR [--catalogue DIR] [--out DIR]`. DIR holds
`aws_instances.csv`, `aws_price_history.csv`, `sagemaker_prices.csv`, `gpu_models.csv` and
`gcp_azure.csv`; the catalogue's is a copy of the public one. What these lack is in the tables
beside this module (`additions`). The same input gives the same output, byte for byte. If sources
disagree about a date, the price is left out and reported on stderr: a missing price is shown as
"no price", but a doubtful one would give a wrong cost.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from . import additions, clouds, endings, spot_advisor

OUT = Path(__file__).resolve().parents[2] / "advisor" / "pricing" / "tables"
REGIONS = ("us-east-1", "us-west-2", "eu-west-1", "ap-northeast-1")
CPU_FAMILIES = re.compile(r"t3a?|[cmr][5-8][a-z]*(-flex)?")
SAME_PRICE = Decimal("0.001")
"""Sources that differ by less only rounded differently (21.95764 and 21.957642)."""
ANNOUNCED = {
    family: (date(2025, 6, 1), "effective date: AWS announcement of June 2025")
    for family in ("p4d", "p4de", "p5", "p5en")
}
"""Days on which a list price changed, if the observations only give a range."""
SOURCE_CHARS = 200
PLACE = ("service", "region", "instance_type", "purchase_option")
SPOT_SOURCES = ("skypilot-catalog", "LeanerCloud")

PRICE_COLUMNS = (
    "provider", "service", "region", "instance_type", "purchase_option",
    "usd_per_hour", "valid_from", "valid_to", "last_seen", "estimated", "source",
    "sources", "note",
)  # fmt: skip
HARDWARE_COLUMNS = (
    "instance_type", "vcpus", "physical_cores", "memory_gib", "arch", "cpu_vendor", "clock_ghz",
    "gpu_vendor", "gpu_model", "gpu_key", "gpu_count", "gpu_memory_gib_each", "gpu_partition",
    "network_gbps", "network_baseline_gbps", "efa", "local_nvme_gb", "ebs_baseline_mbps",
    "ebs_max_mbps", "first_seen", "last_seen", "unlisted", "source",
)  # fmt: skip
_SAME_NAME = ("vcpus", "physical_cores", "memory_gib", "arch", "cpu_vendor", "clock_ghz",
              "gpu_model", "gpu_key", "gpu_count", "gpu_memory_gib_each", "gpu_partition",
              "network_gbps", "network_baseline_gbps", "efa", "local_nvme_gb",
              "ebs_baseline_mbps", "ebs_max_mbps")  # fmt: skip
GPU_COLUMNS = {
    "key": "gpu_key", "vendor": "vendor", "product": "product", "architecture": "architecture",
    "compute_capability": "compute_capability", "multiprocessors": "sm_or_cu",
    "fp32_tflops": "fp32_tflops", "tf32_tensor_tflops": "tf32_tensor_tflops",
    "fp16_tensor_tflops": "fp16_tensor_tflops", "bf16_tflops": "bf16_tflops",
    "fp8_tflops": "fp8_tflops", "memory_gb": "memory_gb", "memory_kind": "mem_type",
    "bandwidth_gb_per_second": "mem_bw_gbs", "nvlink_gb_per_second": "nvlink_gbs",
    "tdp_watts": "tdp_w", "mig_profiles": "mig_profiles", "aws_name": "aws_name", "note": "note",
    "source": "source",
}  # fmt: skip
"""Column of `gpus.csv` -> column of the facts."""
MORE_GPUS = Path(__file__).with_name("more_gpus.csv")
RATIO_COLUMNS = ("scope", "name", "ratio", "points", "source")


@dataclass(frozen=True)
class Observation:
    """One source saw one price from `first` to `last`."""

    usd_per_hour: Decimal
    first: date
    last: date
    source: str
    estimated: bool = False
    others: frozenset[str] = frozenset()
    """Sources that saw the same price."""


Subject = tuple[str, str, str, str]
"""Service, region, instance type, purchase option."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--facts", type=Path, required=True)
    parser.add_argument("--additions", type=Path, default=additions.HERE)
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--catalogue", type=Path, help="a local copy of the public catalogue")
    parser.add_argument("--catalogue-day", type=date.fromisoformat, default=date(2026, 1, 1))
    arguments = parser.parse_args()
    instances = [row for row in _read(arguments.facts / "aws_instances.csv") if _bundled(row)]
    types = {row["instance_type"] for row in instances}
    more = arguments.additions
    seen = _observations(arguments.facts, more, instances, types)
    prices = [row for subject in sorted(seen) for row in _price_rows(subject, seen[subject])]
    prices += spot_advisor.advised_spot(prices, instances)
    prices.sort(key=lambda row: [row[name] for name in PLACE])
    endings.end_with_ec2(prices)
    additions.add_prices(more, "aws", prices)
    endings.say_what_confirms(prices)
    aws = arguments.out / "aws"
    _write(aws / "prices.csv", PRICE_COLUMNS, prices)
    hardware = [*_hardware_rows(instances), *additions.machines(more, "aws")]
    hardware.sort(key=lambda row: str(row["instance_type"]))
    _write(aws / "hardware.csv", HARDWARE_COLUMNS, hardware)
    _write(arguments.out / "gpus.csv", tuple(GPU_COLUMNS), _gpu_rows(arguments.facts))
    catalogue, day = arguments.catalogue, arguments.catalogue_day
    for name, (prices, machines) in clouds.tables(arguments.facts, more, catalogue, day).items():
        _write(arguments.out / name / "prices.csv", PRICE_COLUMNS, prices)
        _write(arguments.out / name / "hardware.csv", HARDWARE_COLUMNS, machines)
    ratios = _ratio_rows(_read(arguments.facts / "sagemaker_prices.csv"), instances)
    _write(aws / "sagemaker_ratios.csv", RATIO_COLUMNS, ratios)


def _bundled(instance: dict[str, str]) -> bool:
    return instance["category"] == "accelerated" or bool(CPU_FAMILIES.fullmatch(instance["family"]))


def _observations(
    facts: Path, more: Path, instances: list[dict[str, str]], types: set[str]
) -> dict[Subject, list[Observation]]:
    seen: dict[Subject, list[Observation]] = defaultdict(list)
    for subject, observation in (
        *_on_demand(_read(facts / "aws_price_history.csv"), types),
        *_by_region(more, types),
        *_spot(instances),
        *_sagemaker(_read(facts / "sagemaker_prices.csv"), types),
    ):
        seen[subject].append(observation)
    return seen


def _on_demand(
    rows: Iterable[dict[str, str]], types: set[str]
) -> Iterator[tuple[Subject, Observation]]:
    for row in rows:
        kind, region, name = row["price_kind"], row["region"], row["instance_type"]
        if kind == "on_demand" and region in REGIONS and name in types:
            price = Decimal(row["usd_per_hour"])
            dates = _day(row["first_seen"]), _day(row["last_seen"])
            yield ("ec2", region, name, kind), Observation(price, *dates, row["source"])


def _by_region(more: Path, types: set[str]) -> Iterator[tuple[Subject, Observation]]:
    for name, region, price in additions.demand_prices(more):
        if name in types:
            seen = Observation(price, additions.SEEN, additions.SEEN, additions.SOURCE)
            yield ("ec2", region, name, "on_demand"), seen


def _spot(instances: list[dict[str, str]]) -> Iterator[tuple[Subject, Observation]]:
    """A spot price is one figure per day and region, so a cost from it is an estimate."""
    for row in instances:
        for region in REGIONS:
            value, day = row[f"spot_usd_{region}"], row[f"spot_asof_{region}"]
            if value and day:
                source = f"spot price of {day}: {_spot_source(row['price_source'])}"
                observed = Observation(Decimal(value), _day(day), _day(day), source, estimated=True)
                yield ("ec2", region, row["instance_type"], "spot"), observed


def _sagemaker(
    rows: Iterable[dict[str, str]], types: set[str]
) -> Iterator[tuple[Subject, Observation]]:
    for row in rows:
        region = row["region"].split(" ")[0]
        if region not in REGIONS or row["sagemaker_instance"].removeprefix("ml.") not in types:
            continue
        day, name = _day(row["as_of"]), row["sagemaker_instance"]
        assumed = row["region"].endswith("(assumed)")
        source = _source_of_sagemaker(row["source"]) + (" (region assumed)" if assumed else "")
        price = Decimal(row["usd_per_hour"])
        observed = Observation(price, day, day, source, estimated=assumed)
        yield ("sagemaker_training", region, name, "on_demand"), observed


def _source_of_sagemaker(text: str) -> str:
    return re.sub(r" \([a-z]+ \d+\)$", "", text) + ", list price of training"


def _price_rows(subject: Subject, observations: list[Observation]) -> list[dict[str, Any]]:
    firm = [o for o in observations if not o.estimated] or observations
    periods = _periods(firm)
    clash = next((pair for pair in pairwise(periods) if pair[1].first <= pair[0].last), None)
    if clash:
        prices = " and ".join(f"{period.usd_per_hour} ({period.source})" for period in clash)
        sys.stderr.write(f"left out: {' '.join(subject)}: {prices}\n")
        return []
    periods = [periods[0], *(_announced(subject, *pair) for pair in pairwise(periods))]
    ends = [*(period.first for period in periods[1:]), None]
    return [_price_row(subject, period, end) for period, end in zip(periods, ends, strict=True)]


def _periods(observations: list[Observation]) -> list[Observation]:
    """Joins observations of one price, in order of their first day."""
    periods: list[Observation] = []
    for seen in sorted(observations, key=lambda o: (o.first, o.last, o.source)):
        at = next((i for i, s in enumerate(periods) if _joins(s, seen)), None)
        if at is None:
            periods.append(seen)
        else:
            last, others = max(periods[at].last, seen.last), periods[at].others | {seen.source}
            periods[at] = replace(periods[at], last=last, others=others)
    return periods


def _joins(period: Observation, seen: Observation) -> bool:
    return abs(period.usd_per_hour - seen.usd_per_hour) <= SAME_PRICE * seen.usd_per_hour


def _announced(subject: Subject, before: Observation, after: Observation) -> Observation:
    """The change starts on its announced day, else when the new price was first seen."""
    day, words = ANNOUNCED.get(subject[2].split(".")[0], (after.first, ""))
    if not words or not before.last < day <= after.first:
        return after
    return replace(after, first=day, source=f"{after.source}; {words}")


def _price_row(subject: Subject, period: Observation, end: date | None) -> dict[str, Any]:
    service, region, instance_type, purchase_option = subject
    return {
        "provider": "aws",
        "service": service,
        "region": region,
        "instance_type": instance_type,
        "purchase_option": purchase_option,
        "usd_per_hour": period.usd_per_hour,
        "valid_from": period.first,
        "valid_to": end or "",
        "last_seen": period.last,
        "estimated": int(period.estimated),
        "source": period.source[:SOURCE_CHARS],
        "sources": len(period.others | {period.source}),
        "note": "",
    }


def _hardware_rows(instances: list[dict[str, str]]) -> list[dict[str, object]]:
    """A type that the newest scrape lacks is unlisted, which alone doesn't say that it ended."""
    newest = max(row["last_seen_describe"] for row in instances)
    return [
        {
            "instance_type": row["instance_type"],
            **{name: row[name] for name in _SAME_NAME},
            "gpu_vendor": row["accel_vendor"],
            "first_seen": row["first_seen_describe"],
            "last_seen": row["last_seen_describe"],
            "unlisted": int(row["last_seen_describe"] < newest),
            "source": row["hw_source"],
        }
        for row in sorted(instances, key=lambda row: row["instance_type"])
    ]


def _gpu_rows(facts: Path) -> list[dict[str, object]]:
    """Return the facts' GPUs, and those of public speed measurements that the facts lack."""
    of_facts: list[dict[str, object]] = [
        {column: row[name] for column, name in GPU_COLUMNS.items()}
        for row in _read(facts / "gpu_models.csv")
    ]
    return of_facts + [dict(row) for row in _read(MORE_GPUS)]


def _ratio_rows(
    rows: list[dict[str, str]], instances: list[dict[str, str]]
) -> list[dict[str, object]]:
    """SageMaker's surcharge over EC2, as the median of observations: for a type, its family, and
    all CPU or all accelerated types."""
    category = {row["instance_type"]: row["category"] for row in instances}
    seen: dict[tuple[str, str], list[tuple[Decimal, str]]] = defaultdict(list)
    for row in rows:
        name = row["sagemaker_instance"].removeprefix("ml.")
        observed = Decimal(row["ratio_sagemaker_over_ec2"]), row["as_of"]
        for place in (("type", name), ("family", name.split(".")[0]), ("class", category[name])):
            seen[place].append(observed)
    return [_ratio_row(scope, name, seen[scope, name]) for scope, name in sorted(seen)]


def _ratio_row(scope: str, name: str, seen: list[tuple[Decimal, str]]) -> dict[str, object]:
    days = sorted(day for _, day in seen)
    ratio = median(ratio for ratio, _ in seen).quantize(Decimal("0.0001"))
    source = f"list prices of SageMaker training and EC2, {days[0]} to {days[-1]}"
    return dict(zip(RATIO_COLUMNS, (scope, name, ratio, len(seen), source), strict=True))


def _spot_source(sources: str) -> str:
    """Return the source with spot prices in USD, among all sources of an instance's prices."""
    named = sources.split(" + ")
    return next(part for word in SPOT_SOURCES for part in named if word in part)


def _day(text: str) -> date:
    """Return the first day of `2020`, `2020-12` or `2020-12-03`."""
    year, month, day = (*text.split("-"), "01", "01")[:3]
    return date(int(year), int(month), int(day))


def _read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def _write(path: Path, columns: tuple[str, ...], rows: Iterable[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.DictWriter(lines, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
