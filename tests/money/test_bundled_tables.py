"""The bundled tables: complete, dated, and correct for known cases."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest

from advisor.pricing.book import PriceBook
from advisor.pricing.bundled import TABLES, bundled_prices, read_tables
from advisor.pricing.catalogue import GIB, catalogue
from advisor.pricing.price import PriceKey
from advisor.pricing.providers import providers
from advisor.pricing.staleness import staleness

ROOT = Path(__file__).parents[2]


def key(name: str, region: str = "us-east-1", option: str = "on_demand") -> PriceKey:
    service = "sagemaker_training" if name.startswith("ml.") else "ec2"
    return PriceKey("aws", service, region, name, option)


def usd(at: PriceKey, when: datetime) -> Decimal:
    priced = PriceBook(bundled_prices()).price_at(at, when)
    assert priced is not None, at
    return priced.row.usd_per_hour


def test_every_row_has_a_source_a_date_and_a_price_above_nothing():
    for line in read_tables("prices.csv"):
        assert line["source"], line
        first, last = (date.fromisoformat(line[name]) for name in ("valid_from", "last_seen"))
        assert date(2017, 1, 1) <= first, line
        assert first <= last or "announcement" in line["source"], line
    for row in bundled_prices():
        assert row.usd_per_hour > 0
        assert len(row.source) <= 200
        assert row.usd_per_hour == row.usd_per_hour.quantize(Decimal("1e-9")), "lost when stored"


def test_no_machine_has_two_prices_at_one_time():
    by_key: dict[PriceKey, list] = {}
    for row in bundled_prices():
        by_key.setdefault(row.key, []).append(row)
    for rows in by_key.values():
        for old, new in pairwise(sorted(rows, key=lambda row: row.valid_from)):
            assert old.valid_to == new.valid_from
            assert old.usd_per_hour != new.usd_per_hour
    counts = Counter((row.key, row.valid_from) for row in bundled_prices())
    assert max(counts.values()) == 1


def test_it_knows_the_published_prices_of_sagemaker():
    when = datetime(2020, 12, 9, tzinfo=UTC)
    assert usd(key("ml.p3.8xlarge", "us-west-2"), when) == Decimal("14.688")
    assert usd(key("ml.p3.2xlarge", "us-west-2"), when) == Decimal("3.825")


@pytest.mark.parametrize("region", ["us-east-1", "us-west-2"])
def test_an_old_run_keeps_the_price_from_before_the_cut_of_june_2025(region):
    p5 = key("p5.48xlarge", region)
    assert usd(p5, datetime(2025, 5, 31, 23, 59, tzinfo=UTC)) == Decimal("98.32")
    assert usd(p5, datetime(2025, 6, 1, tzinfo=UTC)) == Decimal("55.04")


@pytest.mark.parametrize("region", ["us-east-1", "us-west-2"])
def test_common_families_have_a_price_today(region):
    book = PriceBook(bundled_prices())
    now = datetime(2026, 8, 1, tzinfo=UTC)
    for name in ("t3.medium", "m5.xlarge", "m6a.large", "m7i.large", "c5.large", "c6g.large",
                 "c7a.xlarge", "r5.large", "r7g.large", "g4dn.xlarge", "g5.xlarge", "g6.xlarge",
                 "p3.8xlarge", "p4d.24xlarge", "p5.48xlarge"):  # fmt: skip
        assert book.price_at(key(name, region), now) is not None, name


def test_a_spot_price_is_an_estimate_and_a_list_price_is_not():
    options = {(row.key.purchase_option, row.estimated) for row in bundled_prices()}
    assert ("spot", True) in options
    assert ("spot", False) not in options
    assert ("on_demand", False) in options


def test_every_priced_type_is_in_the_catalogue():
    names = {row.key.instance_type for row in bundled_prices()}
    assert {name for name in names if name not in catalogue() and "+" not in name} == set()


def test_a_type_that_the_newest_list_lacks_keeps_its_price():
    p3 = catalogue()["p3.8xlarge"]
    assert p3.is_unlisted
    assert p3.ended is None
    assert usd(key("p3.8xlarge"), datetime(2026, 8, 1, tzinfo=UTC)) == Decimal("12.24")


@pytest.mark.parametrize(
    ("provider", "name", "expected"),
    [
        ("gcp", "a2-highgpu-1g", "3.67"),
        ("gcp", "n1-highmem-8+1xT4", "0.82"),
        ("azure", "Standard_NC24ads_A100_v4", "3.67"),
        ("lambda", "gpu_1x_a100", "1.99"),
        ("lambda", "gpu_1x_b200_sxm6", "6.99"),
        ("lambda", "gpu_1x_gh200", "2.29"),
        ("oci", "BM.GPU.H100.8", "80"),
        ("runpod", "1x_A100-80GB_SECURE", "1.39"),
        ("nebius", "gpu-h200-sxm_1gpu-16vcpu-200gb", "3.5"),
    ],
)
def test_other_clouds_have_a_dated_price_in_any_region(provider, name, expected):
    service = providers()[provider].service_of(name)
    at = PriceKey(provider, service, "anywhere-1", name)
    now = datetime(2026, 11, 1, tzinfo=UTC)
    priced = PriceBook(bundled_prices()).price_at(at, now)
    assert priced is not None
    assert priced.row.usd_per_hour == Decimal(expected)
    age = staleness(priced.row, now)
    assert age is not None
    assert age.is_stale
    assert priced.row.estimated is (provider in ("gcp", "azure"))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("p4d.24xlarge", "7.24602186"), ("p5.48xlarge", "26.4192"), ("g6.xlarge", "0.410448")],
)
def test_a_spot_price_that_nobody_observed_is_the_advisors_discount_of_its_day(name, expected):
    priced = PriceBook(bundled_prices()).price_at(
        key(name, option="spot"), datetime(2026, 8, 1, tzinfo=UTC)
    )
    assert priced is not None
    assert priced.row.usd_per_hour == Decimal(expected)
    assert priced.row.estimated
    assert "Spot Instance Advisor of 2025-07-28" in priced.row.source


def test_a_price_that_another_source_contradicts_says_so():
    notes = {row.key.instance_type: row.note for row in bundled_prices() if row.note}
    assert "$32.77 in eastus" in notes["Standard_ND96amsr_A100_v4"]


def test_it_describes_machines_and_takes_sagemakers_names():
    p3 = catalogue()["ml.p3.8xlarge"]
    assert (p3.vcpus, p3.physical_cores, p3.memory_bytes) == (32, 16, 244 * GIB)
    assert (p3.gpu_model, p3.gpu_count, p3.gpu_memory_bytes) == ("V100", 4, 16 * GIB)
    assert catalogue()["c6g.large"].architecture == "arm64"
    assert catalogue()["t3.medium"].is_burstable
    assert catalogue()["c7i-flex.large"].is_burstable
    assert not catalogue()["trn1.32xlarge"].is_burstable
    for machine in catalogue().values():
        assert machine.source
        assert 0 <= machine.physical_cores <= machine.vcpus
        assert machine.physical_cores or machine.provider not in ("aws", "gcp")
        assert machine.memory_bytes > 0
        assert machine.first_seen <= machine.last_seen


def _build(folder: Path, history: str) -> subprocess.CompletedProcess[str]:
    header = (TABLES / "aws" / "hardware.csv").read_text().splitlines()[0].split(",")
    facts = dict.fromkeys(header, "1") | {
        "instance_type": "p5.48xlarge", "family": "p5", "category": "accelerated",
        "accel_vendor": "NVIDIA", "first_seen_describe": "2023-01-01",
        "last_seen_describe": "2026-08-02", "hw_source": "h", "price_source": "s",
        **{f"{kind}_{region}": "" for kind in ("spot_usd", "spot_asof")
           for region in ("us-east-1", "us-west-2", "eu-west-1", "ap-northeast-1")},
    }  # fmt: skip
    lines = [",".join(facts), ",".join(facts.values())]
    (folder / "aws_instances.csv").write_text("\n".join(lines))
    columns = "instance_type,region,price_kind,usd_per_hour,first_seen,last_seen,source\n"
    (folder / "aws_price_history.csv").write_text(columns + history)
    (folder / "sagemaker_prices.csv").write_text(
        "sagemaker_instance,region,usage,usd_per_hour,as_of,ratio_sagemaker_over_ec2,source\n"
    )
    (folder / "gpu_models.csv").write_text("gpu_key\n")
    (folder / "gcp_azure.csv").write_text("cloud,instance_type\n")
    tool = [sys.executable, "-m", "tools.bundled_tables"]
    none = ["--additions", str(folder)]
    command = [*tool, "--facts", str(folder), *none, "--out", str(folder / "out")]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)


def _built(folder: Path) -> list[tuple[str, str, str]]:
    with (folder / "out" / "aws" / "prices.csv").open(newline="") as lines:
        return [(r["usd_per_hour"], r["valid_from"], r["valid_to"]) for r in csv.DictReader(lines)]


def test_the_builder_dates_a_change_by_its_announcement_only_if_what_was_seen_allows_it(tmp_path):
    line = "p5.48xlarge,us-east-1,on_demand,{},{},{},s\n"
    _build(
        tmp_path,
        line.format("98.32", "2024-01-01", "2025-04-28")
        + line.format("55.04", "2025-06-23", "2026-07-20")
        + line.format("50", "2026-07-21", "2026-08-01"),
    )
    assert _built(tmp_path) == [
        ("98.32", "2024-01-01", "2025-06-01"),
        ("55.04", "2025-06-01", "2026-07-21"),
        ("50", "2026-07-21", ""),
    ]


def test_the_builder_leaves_out_a_price_on_which_sources_disagree_and_says_so(tmp_path):
    line = "p5.48xlarge,us-east-1,on_demand,{},2024-01-01,2025-01-01,{}\n"
    done = _build(tmp_path, line.format("98.32", "one") + line.format("90", "other"))
    assert _built(tmp_path) == []
    assert "left out: ec2 us-east-1 p5.48xlarge" in done.stderr
