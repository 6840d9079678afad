"""Metadata services tell the names by which price rows are found."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from trimtab import platforms
from trimtab.wire import Gpu, NodeFacts

from advisor import machine
from advisor.pricing.book import PriceBook
from advisor.pricing.bundled import bundled_prices
from advisor.pricing.price import OWN_RATE, PriceKey, PriceRow
from tests.agent.metadata import Answer, Stub, ec2

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def google(machine_type: str) -> Answer:
    known = {
        "machine-type": f"projects/1/machineTypes/{machine_type}",
        "zone": "projects/1/zones/us-central1-a",
        "scheduling/preemptible": "FALSE",
    }

    def answer(method: str, path: str, headers: dict[str, str]) -> str | None:
        asked = path.removeprefix("/computeMetadata/v1/instance/")
        return known.get(asked) if headers.get("Metadata-Flavor") == "Google" else None

    return answer


def azure(method: str, path: str, headers: dict[str, str]) -> str | None:
    document = {"location": "eastus", "zone": "1", "vmSize": "Standard_NC24ads_A100_v4"}
    return json.dumps(document) if path.startswith("/metadata/instance") else None


def detected(answer: Answer, *gpus: Gpu) -> NodeFacts:
    stub = Stub(answer)
    try:
        found = platforms.detect({"TRIMTAB_METADATA_URL": stub.url})
    finally:
        stub.close()
    assert found is not None
    facts = NodeFacts("m", gpus=list(gpus))
    platforms.fill_node_facts(facts, found, {})
    return facts


def usd(facts: NodeFacts, book: PriceBook | None = None) -> Decimal | None:
    book = book or PriceBook(bundled_prices())
    priced = book.price_at(machine.price_key(facts), NOW)
    return priced.row.usd_per_hour if priced else None


A100 = Gpu("NVIDIA A100-SXM4-40GB", 40 * 2**30)
T4 = Gpu("Tesla T4", 15 * 2**30)


@pytest.mark.parametrize(
    ("answer", "gpus", "expected"),
    [
        (ec2(life_cycle="on-demand"), [], "1.212"),
        (google("a2-highgpu-1g"), [A100], "3.673385"),
        (google("n1-highmem-8"), [T4], "0.82"),
        (google("n1-highmem-16"), [T4, T4], "1.65"),
        (azure, [], "3.67"),
    ],
)
def test_a_detected_machine_has_a_price(answer, gpus, expected):
    assert usd(detected(answer, *gpus)) == Decimal(expected)


def test_an_n1_machine_with_gpus_that_have_no_price_has_none():
    assert usd(detected(google("n1-highmem-8"), Gpu("Tesla X9", 2**34))) is None
    assert usd(detected(google("n1-highmem-8"))) is None


def test_azures_short_name_is_the_same_machine():
    facts = replace(detected(azure), instance_type="NC24ads_A100_v4", service="")
    assert usd(facts) == Decimal("3.67")


def own(name: str, service: str, provider: str) -> PriceBook:
    key = PriceKey(provider, service, "", name)
    rate = PriceRow(key, Decimal(2), NOW, None, "a contract", OWN_RATE)
    return PriceBook([*bundled_prices(), rate])


@pytest.mark.parametrize("service", ["machine", "compute_engine"])
def test_an_own_rate_of_the_host_is_of_the_machine_with_its_gpus(service):
    facts = detected(google("n1-highmem-8"), T4)
    assert usd(facts, own("n1-highmem-8", service, "gcp")) == 2


def test_an_own_rate_under_the_short_name_counts():
    assert usd(detected(azure), own("NC24ads_A100_v4", "machine", "azure")) == 2


def test_a_list_price_of_the_host_is_not_that_of_the_machine_with_gpus():
    host = PriceKey("gcp", "compute_engine", "us-central1", "n1-standard-4")
    book = PriceBook([PriceRow(host, Decimal("0.19"), NOW, None, "a list")])
    assert usd(detected(google("n1-standard-4"), T4), book) is None
    assert usd(detected(google("n1-standard-4")), book) == Decimal("0.19")
