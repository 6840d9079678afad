"""The price explorer and the page of one machine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from tests.web import factories
from webapp.prices.models import Discount, Machine, Price, PriceRefresh

PRICES = reverse("prices:prices")


def price(name: str = "x1.big", usd: str = "2.5", **more: object) -> Price:
    values = {
        "provider": "aws", "service": "ec2", "region": "us-east-1", "instance_type": name,
        "usd_per_hour": Decimal(usd), "valid_from": datetime(2026, 1, 1, tzinfo=UTC),
        "source": "AWS Price List", "precedence": 10, "seen_at": timezone.now(),
    }  # fmt: skip
    return Price.objects.create(**values | more)


def test_it_finds_prices_by_type_region_option_and_day(owner):
    price("p9.large", "4.0", valid_to=datetime(2026, 6, 1, tzinfo=UTC))
    price("p9.large", "3.0", valid_from=datetime(2026, 6, 1, tzinfo=UTC))
    price("p9.large", "1.1", purchase_option="spot", zone="us-east-1b")
    price("p9.large", "4.4", region="eu-west-1")
    page = owner.page(f"{PRICES}?q=p9&region=us-east-1&option=on_demand")
    assert "$3.00" in page
    assert all(word not in page for word in ("$4.00", "$1.10", "$4.40"))
    assert "AWS Price List" in page
    assert "2026-06-01" in page
    page = owner.page(f"{PRICES}?q=p9&region=us-east-1&on=2026-05-31")
    assert "$4.00" in page
    assert "$3.00" not in page
    assert "$1.10" in owner.page(f"{PRICES}?q=p9&option=spot")


def test_it_shows_your_rate_beside_the_list_and_nobody_elses(owner, stranger):
    price("p9.large", "4.0")
    january = datetime(2026, 1, 1, tzinfo=UTC)
    Discount.objects.create(workspace=owner.workspace, percent=25, valid_from=january)
    price("p9.huge", "7.77", workspace=owner.workspace, precedence=100)
    page = owner.page(f"{PRICES}?q=p9")
    assert "$4.00" in page
    assert "$3.00" in page
    assert "$7.77" in page
    page = stranger.page(f"{PRICES}?q=p9")
    assert "$4.00" in page
    assert "$3.00" not in page
    assert "p9.huge" not in page


def test_it_says_when_a_price_is_stale_and_when_aws_was_asked(owner):
    seen_at = timezone.now() - timedelta(days=100)
    price("p9.large", seen_at=seen_at)
    page = owner.page(f"{PRICES}?q=p9")
    assert f">list price of {seen_at.date()}</span>" in page
    assert "1 list price on this page is stale" in page
    assert "manage.py refresh_prices" in page

    PriceRefresh.objects.create(
        name="ec2/us-east-1", finished_at=timezone.now() - timedelta(hours=3), error="no access"
    )
    Price.objects.filter(instance_type="p9.large").update(seen_at=timezone.now())
    page = owner.page(f"{PRICES}?q=p9")
    assert ">list price of" not in page
    assert "3 h ago" in page
    assert "no access" in page


def test_an_unlisted_machine_is_marked_and_keeps_its_price(owner):
    page = owner.page(f"{PRICES}?q=p3.8xlarge&region=us-east-1&service=ec2&option=on_demand")
    assert "$12.24" in page
    assert ">not listed</span>" in page
    assert "its price was confirmed on 2026-08-26: check that your region still offers it" in page


def test_a_machine_that_its_provider_ended_says_when_and_where_it_was_announced(owner):
    page = owner.page(f"{PRICES}?q=Standard_NC6s_v3")
    assert ">not offered</span>" in page
    assert "ended it on 2025-09-30 (MicrosoftDocs/azure-docs" in page
    machine = owner.page(reverse("prices:machine", args=["Standard_NC6s_v3"]))
    assert "2025-09-30, announced in MicrosoftDocs" in machine


@pytest.mark.parametrize("query", ["?page=x&on=32.13.&q=%00", "?region=nowhere", "?page=9999"])
def test_words_that_mean_nothing_break_nothing(owner, query):
    owner.page(PRICES + query)


def test_it_asks_the_database_as_often_for_many_as_for_few(owner):
    def count(address: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            owner.page(address)
        return len(captured)

    assert count(PRICES) == count(f"{PRICES}?q=g5.xlarge")
    assert count(f"{PRICES}?q=p3") == count(f"{PRICES}?q=p3.8xlarge") == count(PRICES) + 1


def test_the_list_as_csv_is_what_the_page_shows_at_your_rate(owner):
    price("p9.large", "4.0")
    january = datetime(2026, 1, 1, tzinfo=UTC)
    Discount.objects.create(workspace=owner.workspace, percent=25, valid_from=january)
    answer = owner.client.get(reverse("prices:prices_csv") + "?q=p9")
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert lines[0].startswith("provider,service,region,zone,instance_type")
    assert lines[1:] == [
        'aws,ec2,us-east-1,,p9.large,on_demand,linux,3,2026-01-01,,"AWS Price List, less 25 %",0,,'
    ]


def test_a_machine_has_a_page_with_its_figures_their_source_and_every_price(owner):
    Machine.objects.create(
        provider="aws", region="us-east-1", instance_type="p4d.24xlarge", hardware={},
        first_seen_at=timezone.now(), last_seen_at=timezone.now(),
    )  # fmt: skip
    page = owner.page(reverse("prices:machine", args=["ml.p4d.24xlarge"]))
    for word in ("8 × NVIDIA A100", "400 Gbit/s", "EFA", "1,555 GB/s", "1g.5gb", "37.688",
                 "vendor datasheets", "listed, confirmed"):  # fmt: skip
        assert word in page, word
    for name in ("nothing.known", "\0"):
        assert owner.client.get(reverse("prices:machine", args=[name])).status_code == 404


def test_a_machine_that_is_newer_than_this_version_is_shown_as_aws_described_it(owner):
    from advisor.pricing.catalogue import catalogue

    hardware = catalogue()["p5.48xlarge"].to_document() | {"name": "p9.new", "vcpus": 333}
    Machine.objects.create(
        provider="aws", region="us-east-1", instance_type="p9.new", hardware=hardware,
        first_seen_at=timezone.now(), last_seen_at=timezone.now(), gone_at=timezone.now(),
    )  # fmt: skip
    page = owner.page(reverse("prices:machine", args=["p9.new"]))
    assert "333 vCPU" in page
    assert "not listed since" in page


def test_an_own_price_of_another_workspace_is_not_on_the_machines_page(owner, stranger):
    factories.workspace("Third")
    price("p9.huge", "7.77", workspace=stranger.workspace, precedence=100)
    assert owner.client.get(reverse("prices:machine", args=["p9.huge"])).status_code == 404
    assert "$7.77" in stranger.page(reverse("prices:machine", args=["p9.huge"]))
