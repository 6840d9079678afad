"""When another machine saves enough to be recommended, and stays cheaper if the prediction is
wrong."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from advisor.pricing.book import PriceBook
from advisor.pricing.catalogue import GIB, Catalogue, InstanceType, catalogue
from advisor.pricing.price import PriceKey, PriceRow
from advisor.recommend import Recommendation, recommend
from advisor.sizing.demand import BALANCED, Demand

AS_OF = datetime(2026, 8, 22, tzinfo=UTC)
NOW = replace(catalogue()["m5.2xlarge"], name="now5.large", clock_ghz=3.0)
"""8 threads on 4 cores; a dollar an hour, and the run takes an hour."""
SAME_FAMILY = replace(NOW, name="now5.small")
ALIKE = replace(NOW, name="other5.large")
OTHER_PROCESSOR = replace(NOW, name="other6.large")
OTHER_VENDOR = replace(NOW, name="other5.large", cpu_vendor="AMD")
HALF = replace(SAME_FAMILY, vcpus=4, physical_cores=2)


def proposed(
    other: InstanceType, usd_per_hour: str, cores: float = 1.0, cost: str = "1"
) -> Recommendation | None:
    """The recommendation if there is one other machine, at this price."""
    prices = {NOW.name: Decimal(1), other.name: Decimal(usd_per_hour)}
    since = datetime(2026, 1, 1, tzinfo=UTC)
    keys = {name: PriceKey("aws", "ec2", "us-east-1", name) for name in prices}
    book = PriceBook([PriceRow(keys[n], usd, since, None, "list") for n, usd in prices.items()])
    demand = Demand(cores, GIB, 0, 3600, NOW.name, "us-east-1")
    machines = Catalogue({NOW.name: NOW, other.name: other})
    recommendations = recommend(
        [], demand, Decimal(cost), 3600, [], book, machines, AS_OF, BALANCED
    )
    return recommendations[0] if recommendations else None


@pytest.mark.parametrize(
    ("other", "usd_per_hour", "is_proposed"),
    [
        pytest.param(SAME_FAMILY, "0.90", True, id="a tenth less in the same family"),
        pytest.param(SAME_FAMILY, "0.91", False, id="not quite a tenth"),
        pytest.param(ALIKE, "0.90", True, id="a tenth less on the same processor"),
        pytest.param(ALIKE, "0.91", False, id="not quite a tenth on the same processor"),
        pytest.param(OTHER_PROCESSOR, "0.75", True, id="a quarter less on another generation"),
        pytest.param(OTHER_PROCESSOR, "0.76", False, id="not quite a quarter"),
        pytest.param(OTHER_VENDOR, "0.75", True, id="a quarter less of another vendor"),
        pytest.param(OTHER_VENDOR, "0.76", False, id="not quite a quarter of another vendor"),
    ],
)
def test_a_switch_saves_a_tenth_and_to_another_processor_a_quarter(
    other: InstanceType, usd_per_hour: str, is_proposed: bool
) -> None:
    assert (proposed(other, usd_per_hour) is not None) == is_proposed


@pytest.mark.parametrize(("usd_per_hour", "is_proposed"), [("0.80", True), ("0.82", False)])
def test_a_switch_is_not_dearer_where_the_run_takes_as_long_as_it_may(
    usd_per_hour: str, is_proposed: bool
) -> None:
    """Three busy cores on two with two threads each: 9.5 % slower, at worst 23.6 %. Either price
    saves a tenth at the likely time; the worst costs 98.9 cents or $1.01."""
    recommendation = proposed(HALF, usd_per_hour, cores=3.0)
    assert (recommendation is not None) == is_proposed


def test_a_saving_goes_by_what_the_run_cost_where_that_is_less_than_the_list_price() -> None:
    """At nine tenths of the price it saves a tenth of the list price, and nothing of the cost."""
    assert proposed(SAME_FAMILY, "0.90", cost="0.90") is None
    change = proposed(SAME_FAMILY, "0.81", cost="0.90")
    assert change is not None
    assert change.saving_usd == Decimal("0.09")
