"""Discounts, estimates of SageMaker prices, and stale prices."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from advisor.pricing.book import PriceBook
from advisor.pricing.bundled import bundled_prices
from advisor.pricing.discounts import Discount
from advisor.pricing.effective_dates import starts_at
from advisor.pricing.price import OWN_RATE, REFRESHED, PriceKey, PriceRow
from advisor.pricing.staleness import staleness

KEY = PriceKey("aws", "ec2", "us-east-1", "p4d.24xlarge")
MARCH, JUNE, SEPTEMBER = (datetime(2025, month, 1, tzinfo=UTC) for month in (3, 6, 9))
DAY = timedelta(days=1)


def row(usd: str, valid_from: datetime = MARCH, **more) -> PriceRow:  # type: ignore[no-untyped-def]
    values = {"key": KEY, "valid_to": None, "source": "a list", "id": 7, **more}
    return PriceRow(usd_per_hour=Decimal(usd), valid_from=valid_from, **values)


def off(percent: str, **more) -> Discount:  # type: ignore[no-untyped-def]
    return Discount(Decimal(percent), **{"valid_from": MARCH, **more})


def usd(book: PriceBook, when: datetime, key: PriceKey = KEY) -> Decimal | None:
    priced = book.price_at(key, when)
    return priced.row.usd_per_hour if priced else None


def test_a_discount_of_the_family_goes_before_a_flat_one_and_both_before_the_list():
    rows = [row("10", precedence=REFRESHED)]
    flat, family = off("10"), off("40", family="p4d")
    assert usd(PriceBook(rows, [flat]), JUNE) == 9
    assert usd(PriceBook(rows, [flat, family]), JUNE) == 6
    assert usd(
        PriceBook([*rows, row("5.5", precedence=OWN_RATE)], [flat, family]), JUNE
    ) == Decimal("5.5")
    assert usd(PriceBook(rows, [flat, off("40", family="g5")]), JUNE) == 9


def test_a_discount_holds_for_its_time_and_follows_the_list():
    rows = [row("10", valid_to=JUNE), row("8", JUNE)]
    book = PriceBook(rows, [off("25", valid_from=JUNE - DAY, valid_to=SEPTEMBER)])
    spans = book.spans(KEY, MARCH, SEPTEMBER + DAY)
    assert [(s.start, s.row.usd_per_hour) for s in spans if s.row] == [
        (MARCH, 10), (JUNE - DAY, Decimal("7.5")), (JUNE, 6), (SEPTEMBER, 8),
    ]  # fmt: skip


def test_a_discount_says_what_it_came_from_and_a_cost_can_name_the_list_price():
    priced = PriceBook([row("10")], [off("12.50")]).price_at(KEY, JUNE)
    assert priced is not None
    assert (priced.row.source, priced.row.id) == ("a list, less 12.5 %", 7)


def test_a_discount_may_be_for_one_service_or_purchase_option():
    rows = [row("10"), row("3", key=replace(KEY, purchase_option="spot"))]
    book = PriceBook(rows, [off("10", purchase_option="on_demand")])
    assert usd(book, JUNE) == 9
    assert usd(book, JUNE, replace(KEY, purchase_option="spot")) == 3
    assert usd(PriceBook(rows, [off("10", service="sagemaker_training")]), JUNE) == 10


def test_the_list_price_is_at_hand_beside_your_rate():
    book = PriceBook([row("10"), row("5", precedence=OWN_RATE)], [off("10")])
    assert (usd(book, JUNE), usd(book.at_list(), JUNE)) == (5, 10)
    assert book.has_own_rates
    assert not book.at_list().has_own_rates


@pytest.mark.parametrize("percent", ["0", "100", "-3"])
def test_it_refuses_a_discount_that_is_none(percent):
    with pytest.raises(ValueError, match="between 0 and 100"):
        PriceBook([row("10")], [off(percent)]).price_at(KEY, JUNE)


def test_a_rate_for_any_region_or_type_gives_way_to_one_that_names_them():
    gpu = PriceKey("on_premises", "gpu_hour", "", "")
    h100 = replace(gpu, instance_type="H100-SXM")
    cellar = replace(h100, region="cellar")
    rows = [row(str(n + 1), key=k, precedence=OWN_RATE) for n, k in enumerate([gpu, h100, cellar])]
    book = PriceBook(rows)
    assert usd(book, JUNE, cellar) == 3
    assert usd(book, JUNE, replace(cellar, region="attic")) == 2
    assert usd(book, JUNE, replace(cellar, instance_type="T4")) == 1
    assert usd(book, JUNE, KEY) is None


def test_an_unknown_sagemaker_price_is_estimated_from_the_one_on_ec2():
    book = PriceBook(bundled_prices())
    now = datetime(2026, 8, 1, tzinfo=UTC)
    tokyo = PriceKey("aws", "sagemaker_training", "ap-northeast-1", "ml.p4d.24xlarge")
    priced = book.price_at(tokyo, now)
    on_ec2 = usd(book, now, replace(tokyo, service="ec2", instance_type="p4d.24xlarge"))
    assert priced is not None
    assert on_ec2 is not None
    assert priced.row.usd_per_hour == on_ec2 * Decimal("1.15")
    assert priced.row.estimated
    assert "1.15 x EC2" in priced.row.source


def test_a_known_sagemaker_price_is_never_replaced_by_an_estimate():
    book = PriceBook(bundled_prices())
    known = PriceKey("aws", "sagemaker_training", "us-west-2", "ml.p3.8xlarge")
    priced = book.price_at(known, datetime(2020, 12, 9, tzinfo=UTC))
    assert priced is not None
    assert (priced.row.usd_per_hour, priced.row.estimated) == (Decimal("14.688"), False)


@pytest.mark.parametrize(
    ("name", "before", "ec2_after"),
    [("p5.48xlarge", "113.068", "55.04"), ("p4d.24xlarge", "37.688", "21.957642")],
)
def test_a_training_price_from_before_a_cut_ends_with_it_and_an_estimate_follows(
    name, before, ec2_after
):
    book = PriceBook(bundled_prices())
    training = PriceKey("aws", "sagemaker_training", "us-east-1", f"ml.{name}")
    assert usd(book, datetime(2025, 5, 31, 23, 59, tzinfo=UTC), training) == Decimal(before)
    priced = book.price_at(training, datetime(2025, 6, 1, tzinfo=UTC))
    assert priced is not None
    assert priced.row.usd_per_hour == Decimal(ec2_after) * Decimal("1.15")
    assert (priced.row.estimated, priced.later) == (True, False)
    spans = book.spans(
        training, datetime(2025, 5, 31, tzinfo=UTC), datetime(2025, 6, 2, tzinfo=UTC)
    )
    assert [span.end - span.start for span in spans] == [DAY, DAY]


def test_a_price_that_ended_says_why():
    ended = [row for row in bundled_prices() if row.note.startswith("ended: EC2's price")]
    assert {row.key.instance_type for row in ended} == {"ml.p4d.24xlarge", "ml.p5.48xlarge"}
    assert all(row.valid_to for row in ended)


@pytest.mark.parametrize(
    ("name", "factor"), [("g5.xlarge", "1.4"), ("g5.16xlarge", "1.25"), ("m7i.large", "1.2")]
)
def test_the_types_own_ratio_goes_before_its_familys_and_that_before_its_class(name, factor):
    key = replace(KEY, instance_type=name)
    book = PriceBook([row("1", key=key)])
    training = replace(key, service="sagemaker_training", instance_type=f"ml.{name}")
    assert usd(book, JUNE, training) == Decimal(factor)


def test_nothing_is_estimated_of_spot_nor_of_a_machine_that_nobody_knows():
    book = PriceBook([row("1"), row("1", key=replace(KEY, instance_type="p99.huge"))])
    training = replace(KEY, service="sagemaker_training")
    assert usd(book, JUNE, replace(training, instance_type="ml.p99.huge")) is None
    spot = replace(training, instance_type="ml.p4d.24xlarge", purchase_option="spot")
    assert usd(book, JUNE, spot) is None
    assert usd(book, JUNE, replace(KEY, purchase_option="spot")) is None


def test_an_estimate_is_discounted_as_a_list_price_is():
    book = PriceBook([row("10")], [off("10", service="sagemaker_training")])
    training = replace(KEY, service="sagemaker_training", instance_type="ml.p4d.24xlarge")
    assert usd(book, JUNE, training) == Decimal("10.35")
    assert usd(book, JUNE) == 10


@pytest.mark.parametrize(
    ("option", "days", "is_stale"),
    [("on_demand", 90, False), ("on_demand", 91, True), ("spot", 7, False), ("spot", 8, True)],
)
def test_a_price_grows_stale_by_when_it_was_last_seen(option, days, is_stale):
    seen = row("1", key=replace(KEY, purchase_option=option), seen_at=JUNE)
    freshness = staleness(seen, JUNE + days * DAY)
    assert freshness is not None
    assert (freshness.age, freshness.is_stale) == (days * DAY, is_stale)


@pytest.mark.parametrize(
    "fresh", [row("1", precedence=OWN_RATE, seen_at=MARCH), row("1"),
              row("1", valid_to=JUNE, seen_at=MARCH)]
)  # fmt: skip
def test_an_own_rate_a_past_price_and_one_without_a_date_cant_go_stale(fresh):
    assert staleness(fresh, SEPTEMBER) is None


def test_a_new_price_starts_on_its_day_unless_the_old_one_was_seen_after_it():
    def starts(effective: datetime, seen_usd: str = "2") -> datetime | None:
        known = (Decimal(1), MARCH, JUNE)
        return starts_at(*known, Decimal(seen_usd), effective, SEPTEMBER)

    assert starts(JUNE + DAY) == JUNE + DAY
    assert starts(JUNE - DAY) == SEPTEMBER
    assert starts(JUNE + DAY, seen_usd="1.0") is None
