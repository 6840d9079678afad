"""The newest machines of the clouds, and AWS's in all regions: a price that was found, or none."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from advisor.pricing.book import PriceBook
from advisor.pricing.bundled import bundled_prices
from advisor.pricing.catalogue import GIB, catalogue
from advisor.pricing.gpus import gpu_models
from advisor.pricing.price import PriceKey
from advisor.pricing.providers import providers

NOW = datetime(2026, 11, 1, tzinfo=UTC)
BOOK = PriceBook(bundled_prices())


def usd(provider: str, name: str, region: str, option: str = "on_demand") -> Decimal | None:
    service = providers()[provider].service_of(name)
    priced = BOOK.price_at(PriceKey(provider, service, region, name, option), NOW)
    return priced.row.usd_per_hour if priced else None


@pytest.mark.parametrize(
    ("name", "gpu", "count", "vcpus", "memory_gib"),
    [
        ("p5e.48xlarge", "H200-SXM", 8, 192, 2048),
        ("p6e-gb200.36xlarge", "GB200", 4, 144, 960),
        ("trn2.48xlarge", "Trainium2", 16, 192, 2048),
        ("g2-standard-4", "L4", 1, 4, 16),
        ("g2-standard-24", "L4", 2, 24, 96),
        ("g2-standard-96", "L4", 8, 96, 384),
        ("a3-highgpu-1g", "H100-SXM", 1, 26, 234),
        ("a3-highgpu-8g", "H100-SXM", 8, 208, 1872),
        ("a3-megagpu-8g", "H100-SXM", 8, 208, 1872),
        ("a3-ultragpu-8g", "H200-SXM", 8, 224, 2952),
        ("a4-highgpu-8g", "B200-SXM", 8, 224, 3968),
        ("Standard_ND96isr_H100_v5", "H100-SXM", 8, 96, 1900),
        ("Standard_ND96isr_H200_v5", "H200-SXM", 8, 96, 1850),
        ("Standard_ND96isr_MI300X_v5", "MI300X", 8, 96, 1850),
        ("gpu_8x_b200_sxm6", "B200-SXM", 8, 208, 2900),
        ("gpu_1x_gh200", "GH200-96", 1, 64, 432),
    ],
)
def test_it_describes_the_machine(name, gpu, count, vcpus, memory_gib):
    machine = catalogue()[name]
    assert machine.gpu_key == gpu
    assert gpu in gpu_models()
    assert (machine.gpu_count, machine.vcpus) == (count, vcpus)
    assert machine.memory_bytes == memory_gib * GIB
    assert machine.source


@pytest.mark.parametrize(
    ("provider", "name", "region", "option", "expected"),
    [
        ("aws", "p5e.48xlarge", "us-east-2", "on_demand", None),
        ("aws", "p5e.48xlarge", "us-east-2", "capacity_block", "39.799"),
        ("aws", "p6e-gb200.36xlarge", "us-east-1", "on_demand", None),
        ("aws", "p6e-gb200.36xlarge", "us-east-1", "capacity_block", "42.328"),
        ("aws", "trn2.48xlarge", "us-east-2", "on_demand", None),
        ("aws", "trn2.48xlarge", "us-east-2", "capacity_block", "35.7608"),
        ("aws", "p5en.48xlarge", "us-east-2", "capacity_block", "45.768"),
        ("aws", "p4d.24xlarge", "us-east-1", "spot", "16.298"),
        ("aws", "p5.48xlarge", "us-east-1", "spot", "20.788"),
        ("aws", "p5.4xlarge", "us-east-1", "spot", "1.9458"),
        ("aws", "g6.xlarge", "us-east-1", "spot", "0.410448"),
        ("aws", "g6.xlarge", "us-west-2", "spot", "0.426544"),
        ("gcp", "g2-standard-4", "us-central1", "on_demand", "0.706832276"),
        ("gcp", "g2-standard-96", "us-central1", "on_demand", "8.003330784"),
        ("gcp", "a3-highgpu-8g", "us-central1", "on_demand", "88.489999903"),
        ("gcp", "a3-megagpu-8g", "us-central1", "on_demand", "93.400712807"),
        ("gcp", "a3-ultragpu-8g", "us-central1", "on_demand", "84.806908493"),
        ("gcp", "a4-highgpu-8g", "us-central1", "on_demand", None),
        ("gcp", "a4-highgpu-8g", "us-central1", "spot", "39.6336"),
        ("azure", "Standard_ND96isr_H100_v5", "eastus", "on_demand", "98.32"),
        ("azure", "Standard_ND96isr_H200_v5", "westus3", "on_demand", "84.8"),
        ("azure", "Standard_ND96isr_MI300X_v5", "eastus", "on_demand", None),
        ("lambda", "gpu_8x_b200_sxm6", "us-west-1", "on_demand", "53.52"),
        ("lambda", "gpu_1x_gh200", "us-west-1", "on_demand", "2.29"),
    ],
)
def test_it_has_the_price_that_was_found_or_none(provider, name, region, option, expected):
    assert usd(provider, name, region, option) == (Decimal(expected) if expected else None)


def test_aws_machines_have_prices_in_thirty_regions():
    keys = {row.key for row in bundled_prices() if row.key.provider == "aws"}
    assert len({key.region for key in keys if catalogue()[key.instance_type].gpu_count}) >= 30
    assert usd("aws", "g5.xlarge", "us-east-2") == Decimal("1.006")
    assert usd("aws", "p4d.24xlarge", "sa-east-1") == Decimal("35.5569")
    assert usd("aws", "g6.xlarge", "eu-central-2") == Decimal("1.085")
    assert usd("aws", "p5.48xlarge", "us-gov-west-1") == Decimal("66.048")
    assert usd("aws", "p5.48xlarge", "af-south-1") is None, "not sold there"


def test_a_region_that_was_seen_on_one_day_has_this_day_and_source():
    at = PriceKey("aws", "ec2", "eu-central-1", "g5.xlarge")
    row = BOOK.price_at(at, NOW).row
    assert row.valid_from == row.seen_at == datetime(2026, 8, 26, tzinfo=UTC)
    assert row.source == "instances.vantage.sh via tsaol/aws-gpu"
    assert BOOK.price_at(at, datetime(2026, 8, 1, tzinfo=UTC)).later
