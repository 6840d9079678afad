"""Estimates unknown SageMaker training prices from EC2's list prices and the usual surcharge.

The surcharge varies: on 56 pairs of list prices from 2020 to 2025 it was 15 % (p4d, p5), 20 % (CPU
types, p3.8xlarge), 25 % (g4dn, g5, g6 from 2xlarge) and 40 % (g4dn.xlarge, g5.xlarge). So the
type's own ratio overrides its family's, and that overrides the median of all CPU or accelerated
types. The result is `estimated`. Spot prices are not used.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from types import MappingProxyType

from advisor.pricing.bundled import TABLES
from advisor.pricing.machine import InstanceType
from advisor.pricing.price import PriceKey, PriceRow
from advisor.pricing.providers.aws.services import EC2, NAME, SAGEMAKER, SAGEMAKER_PREFIX

_RATIO_DIGITS = Decimal("0.0001")


@dataclass(frozen=True)
class PriceRatio:
    """The ratio of SageMaker's to EC2's price, for a type, a family, or a class of types."""

    value: Decimal
    scope: str
    """`type`, `family` or `class`."""


@cache
def _ratios() -> MappingProxyType[tuple[str, str], PriceRatio]:
    with (TABLES / NAME / "sagemaker_ratios.csv").open(newline="", encoding="utf-8") as lines:
        return MappingProxyType(
            {
                (line["scope"], line["name"]): PriceRatio(Decimal(line["ratio"]), line["scope"])
                for line in csv.DictReader(lines)
            }
        )


def _ratio(machine: InstanceType | None) -> PriceRatio | None:
    """Return the machine's ratio; None for an unknown machine."""
    if machine is None:
        return None
    kind = "accelerated" if machine.gpu_count else "cpu"
    places = (("type", machine.name), ("family", machine.family), ("class", kind))
    return next((_ratios()[place] for place in places if place in _ratios()), None)


def ec2_key(key: PriceKey) -> PriceKey | None:
    """Return the key of the EC2 price to estimate a training price from; None if not possible."""
    if key.service != SAGEMAKER or key.purchase_option != "on_demand":
        return None
    return replace(key, service=EC2, instance_type=key.instance_type.removeprefix(SAGEMAKER_PREFIX))


def estimates(
    key: PriceKey, machine: InstanceType | None, ec2_rows: Iterable[PriceRow]
) -> Iterator[PriceRow]:
    """Yield training prices of `key` from the list prices of the same machine on EC2."""
    usual = _ratio(machine)
    if usual is None:
        return
    words = f"{usual.value.normalize():f} x EC2, the usual ratio of this {usual.scope}"
    for row in ec2_rows:
        if row.is_list:
            yield replace(
                row,
                key=replace(key, zone=row.key.zone),
                usd_per_hour=row.usd_per_hour * usual.value.quantize(_RATIO_DIGITS),
                source=f"{words}: {row.source}",
                estimated=True,
            )
