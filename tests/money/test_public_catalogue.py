"""Reading the public catalogue: real lines, hostile lines, and what can't be known."""

from __future__ import annotations

import csv
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from io import StringIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.pricing.public_catalogue import machines, reading
from advisor.pricing.public_catalogue.lines import MOST_USD, CatalogueError, lines
from advisor.pricing.public_catalogue.offers import offers

FOLDER = Path(__file__).parent / "catalogue"
DAY = datetime(2026, 11, 1, tzinfo=UTC)
COLUMNS = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,SpotPrice"
COLUMNS += ",AvailabilityZone,GpuInfo"


def table(*rows: str) -> StringIO:
    return StringIO("\n".join([COLUMNS, *rows]))


def read(file, provider: str, *regions: str):
    skipped: Counter[str] = Counter()
    found = list(reading.machines(file, f"{provider}/vms.csv", provider, regions, skipped))
    prices = {
        (offer.key.instance_type, offer.key.region, offer.key.purchase_option): offer
        for offer in offers(found, provider, DAY)
    }
    return prices, skipped, found


def read_real(provider: str, *regions: str):
    with (FOLDER / provider / "vms.csv").open(newline="") as file:
        return read(file, provider, *regions)


def test_a_machine_of_google_costs_its_host_and_its_gpus():
    prices, _, _ = read_real("gcp")
    a100 = prices["a2-highgpu-1g", "us-central1", "on_demand"]
    assert a100.usd_per_hour == Decimal("0.73948") + Decimal("2.93391")
    assert (a100.estimated, a100.note, a100.key.service) == (False, "", "compute_engine")
    spot = prices["a2-highgpu-1g", "us-central1", "spot"]
    assert spot.usd_per_hour == Decimal("0.29576") + Decimal("1.1472")
    four = prices["a2-highgpu-4g", "us-central1", "on_demand"]
    assert four.usd_per_hour == Decimal("2.95791") + Decimal("11.73563")


def test_a_host_whose_gpus_have_no_price_there_has_none_either():
    prices, skipped, _ = read_real("gcp")
    assert not [key for key in prices if key[:2] == ("a2-highgpu-1g", "us-west3")]
    assert skipped["without a price of its GPUs"] == 1


def test_tpus_and_prices_that_contradict_themselves_are_left_out_and_counted():
    prices, skipped, _ = read_real("gcp")
    assert skipped[reading.TPU] == 2
    assert skipped[reading.CONTRADICTORY] == 1
    assert not [key for key in prices if key[:2] == ("a3-highgpu-1g", "asia-northeast1")]
    assert max(offer.usd_per_hour for offer in prices.values()) < 100


def test_a_price_far_below_those_of_other_regions_is_doubtful():
    prices, _, _ = read_real("gcp")
    low = prices["a3-highgpu-1g", "us-central1", "on_demand"]
    assert low.estimated
    assert low.note == "doubtful: other regions cost $10.9791 at the median"
    assert not prices["a3-highgpu-1g", "us-east4", "on_demand"].note


def test_an_empty_price_is_not_known_and_not_0():
    prices, skipped, _ = read_real("azure", "eastus", "westus3")
    assert skipped[reading.NO_PRICE] == 1
    assert ("Standard_NC8ads_A10_v4", "eastus", "on_demand") not in prices
    spot_only, _, _ = read_real("gcp", "asia-northeast2")
    assert [key[2] for key in spot_only if key[0] == "n4-highmem-80"] == ["spot"]


def test_zones_with_different_prices_give_the_highest_as_an_estimate():
    prices, _, _ = read_real("aws", "us-east-1")
    spot = prices["c3.large", "us-east-1", "spot"]
    assert (spot.usd_per_hour, spot.estimated) == (Decimal("0.0331"), True)
    assert spot.source == "SkyPilot catalogue, highest of 3 prices in its zones"
    listed = prices["c3.large", "us-east-1", "on_demand"]
    assert (listed.usd_per_hour, listed.estimated) == (Decimal("0.105"), False)


def test_machines_without_gpus_are_read_in_regions_with_a_run_only():
    prices, skipped, _ = read_real("aws", "us-east-1")
    assert {key[1] for key in prices} == {"us-east-1"}
    assert skipped[reading.ELSEWHERE] == 1


def test_gpus_can_be_attached_to_an_n1_host_of_google():
    gpu = "{'Gpus': [{'MemoryInfo': {'SizeInMiB': 16384}}]}"
    rows = [
        "n1-standard-8,,,8,30,0.38,us-central1,0.08,us-central1-a,",
        "n1-standard-32,,,32,120,1.52,us-central1,0.32,us-central1-a,",
        f",T4,1,,,0.35,us-central1,0.11,us-central1-a,{gpu}",
        f",V100,2,,,4.96,us-central1,,us-central1-a,{gpu}",
    ]
    prices, _, _ = read(table(*rows), "gcp", "us-central1")
    listed = {key[0]: offer.usd_per_hour for key, offer in prices.items() if key[2] == "on_demand"}
    assert listed == {
        "n1-standard-8": Decimal("0.38"),
        "n1-standard-8+1xT4": Decimal("0.73"),
        "n1-standard-8+2xV100-SXM2-16": Decimal("5.34"),
        "n1-standard-32": Decimal("1.52"),
    }
    assert ("n1-standard-8+2xV100-SXM2-16", "us-central1", "spot") not in prices


def described(provider: str, *regions: str):
    _, _, found = read_real(provider, *regions)
    every = machines.by_region(found, provider, date(2026, 11, 1)).values()
    return {machine.name: machine for of_region in every for machine in of_region}


def test_it_describes_a_machine_as_far_as_the_catalogue_states_it():
    a100 = described("gcp")["a2-highgpu-1g"]
    assert (a100.vcpus, a100.physical_cores, a100.memory_bytes) == (12, 6, 85 * 2**30)
    assert (a100.gpu_model, a100.gpu_key, a100.gpu_count) == ("A100", "A100-40-SXM", 1)
    lambdas = described("lambda", "us-east-1")
    assert lambdas["gpu_8x_v100"].gpu_count == 8
    assert lambdas["gpu_8x_v100"].physical_cores == 0
    assert "cpu_4x_general" not in lambdas
    assert (lambdas["gpu_1x_a10"].gpu_key, lambdas["gpu_1x_h100_sxm5"].gpu_key) == ("A10", "")


def test_memory_in_the_wrong_unit_is_not_taken_for_80_mib():
    assert described("runpod")["1x_A100-80GB_SECURE"].gpu_memory_bytes == 0


def test_a_machine_whose_gpus_are_not_stated_is_not_described():
    assert "Standard_NC8ads_A10_v4" not in described("azure", "westus3")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("a,T4,1,4,16,abc,r,,,", "x/vms.csv, line 2: Price is 'abc'"),
        ("a,T4,1,4,16,-1,r,,,", "line 2: Price is '-1'"),
        ("a,T4,1,4,16,NaN,r,,,", "line 2: Price is 'NaN'"),
        ("a,T4,1,4,16,1,r,Infinity,,", "line 2: SpotPrice is 'Infinity'"),
        ("a,T4,1,4,16,1e999999,r,,,", "line 2: Price is '1e999999'"),
        ("a,T4,many,4,16,1,r,,,", "line 2: AcceleratorCount is 'many'"),
        (f"{'a' * 65},T4,1,4,16,1,r,,,", "line 2: InstanceType is longer than 64 characters"),
        ("a\0b,T4,1,4,16,1,r,,,", "line 2: "),
    ],
)
def test_an_unreadable_field_is_named_with_its_file_and_line(row, message):
    with pytest.raises(CatalogueError) as refused:
        list(lines(table(row), "x/vms.csv"))
    assert message in str(refused.value)


def test_another_file_of_that_name_is_refused():
    with pytest.raises(CatalogueError, match=r"x/vms\.csv, line 1: column InstanceType is missing"):
        list(lines(StringIO("<html>Not found</html>\n"), "x/vms.csv"))


def test_an_absurd_price_is_left_out_and_counted():
    prices, skipped, _ = read(table("a,T4,1,4,16,10001,r,,,"), "oci")
    assert (prices, skipped[reading.ABSURD]) == ({}, 1)


_FIELD = st.one_of(
    st.sampled_from(["", "0", "1", "0.5", "-1", "NaN", "1e9", "T4", "A100", "tpu-v5p", "700.0"]),
    st.text(max_size=12),
)


@given(st.lists(st.lists(_FIELD, max_size=12), max_size=8), st.sampled_from(["gcp", "lambda"]))
def test_hostile_lines_give_a_clear_error_or_sound_prices(rows, provider):
    file = StringIO()
    writer = csv.writer(file)
    writer.writerow(COLUMNS.split(","))
    writer.writerows(rows)
    _sound(file.getvalue(), provider)


@given(st.text(max_size=300))
def test_hostile_text_gives_a_clear_error_or_sound_prices(text):
    _sound(f"{COLUMNS}\n{text}", "lambda")
    _sound(text, "gcp")


def _sound(text: str, provider: str) -> None:
    prices = {}
    try:
        prices, _, found = read(StringIO(text, newline=""), provider, "r")
        machines.by_region(found, provider, DAY.date())
    except CatalogueError as refused:
        message = str(refused)
    else:
        message = f"{provider}/vms.csv"
    assert message.startswith(f"{provider}/vms.csv")
    for offer in prices.values():
        assert offer.usd_per_hour.is_finite()
        assert 0 < offer.usd_per_hour <= MOST_USD
        assert offer.key.instance_type
        assert offer.key.region
