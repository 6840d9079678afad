"""Another machine is recommended if it saves enough, and stays cheaper if the prediction is
wrong.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from advisor.advice.recommendation import Spending
from advisor.pricing.book import PriceBook
from advisor.pricing.catalogue import GIB, Catalogue, catalogue
from advisor.pricing.machine import InstanceType
from advisor.pricing.price import PriceKey, PriceRow
from advisor.recommend import AdvisedRun, Market, Recommendation, recommend
from advisor.sizing.demand import BALANCED, SAVE, Demand, Preset

AS_OF = datetime(2026, 8, 22, tzinfo=UTC)
NOW = replace(catalogue()["m5.2xlarge"], name="m5.2xlarge", clock_ghz=3.0)
"""8 threads on 4 cores; a dollar an hour, and the run takes an hour."""
SAME_FAMILY = replace(NOW, name="m5.small")
NEWER = replace(NOW, name="m6i.2xlarge")
SLOWER = catalogue()["m5a.2xlarge"]
UNKNOWN = replace(NOW, name="other9.2xlarge")
HALF = replace(SAME_FAMILY, vcpus=4, physical_cores=2)


def proposed(
    other: InstanceType,
    usd_per_hour: str,
    cores: float = 1.0,
    cost: str = "1",
    preset: Preset = BALANCED,
) -> Recommendation | None:
    """Return the recommendation if there is one other machine, at this price."""
    prices = {NOW.name: Decimal(1), other.name: Decimal(usd_per_hour)}
    since = datetime(2026, 1, 1, tzinfo=UTC)
    keys = {name: PriceKey("aws", "ec2", "us-east-1", name) for name in prices}
    book = PriceBook([PriceRow(keys[n], usd, since, None, "list") for n, usd in prices.items()])
    demand = Demand(cores, GIB, 0, 3600, NOW.name, "us-east-1")
    machines = Catalogue({NOW.name: NOW, other.name: other})
    run = AdvisedRun([], demand, Spending(Decimal(cost), 3600, ()))
    recommendations = recommend(run, Market(book, machines, AS_OF), preset=preset)
    return recommendations[0] if recommendations else None


@pytest.mark.parametrize(
    ("other", "usd_per_hour", "is_proposed"),
    [
        pytest.param(SAME_FAMILY, "0.95", True, id="a twentieth less in the same family"),
        pytest.param(SAME_FAMILY, "0.96", False, id="not quite a twentieth"),
        pytest.param(NEWER, "1.19", True, id="a faster generation at a higher price"),
        pytest.param(NEWER, "1.37", False, id="not at a price that only its likely speed pays"),
        pytest.param(SLOWER, "0.41", True, id="slower cores at a price that outweighs it"),
        pytest.param(SLOWER, "0.43", False, id="slower cores that would be dearer at worst"),
        pytest.param(UNKNOWN, "0.74", True, id="a quarter less on a processor without figures"),
        pytest.param(UNKNOWN, "0.75", False, id="not quite a quarter"),
    ],
)
def test_a_switch_saves_a_twentieth_and_is_not_dearer_at_the_adverse_end(
    other: InstanceType, usd_per_hour: str, is_proposed: bool
) -> None:
    assert (proposed(other, usd_per_hour, preset=SAVE) is not None) == is_proposed


@pytest.mark.parametrize(("usd_per_hour", "is_proposed"), [("0.82", True), ("0.84", False)])
def test_a_switch_is_not_dearer_where_the_run_takes_as_long_as_it_may(
    usd_per_hour: str, is_proposed: bool
) -> None:
    """Three busy cores on two with two threads each: 9.5 % slower, at worst 20.6 %. Either
    price saves enough at the likely time; the worst costs 98.9 cents or $1.01."""
    recommendation = proposed(HALF, usd_per_hour, cores=3.0)
    assert (recommendation is not None) == is_proposed


def test_a_saving_goes_by_what_the_run_cost_where_that_is_less_than_the_list_price() -> None:
    """The machine saves a tenth of the list price at nine tenths of the price, and nothing of the
    cost.
    """
    assert proposed(SAME_FAMILY, "0.90", cost="0.90") is None
    change = proposed(SAME_FAMILY, "0.81", cost="0.90")
    assert change is not None
    assert change.saving_usd == Decimal("0.09")
