"""Buying the same machines for less: another region, and commitments by use."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.advice.buying import Buying
from advisor.advice.commitment import MachineUse, busy_shares, count_committed
from advisor.advice.order import joint_saving_usd
from advisor.advice.recommendation import Recommendation, Spending
from advisor.pricing.book import PriceBook
from advisor.pricing.catalogue import GIB, catalogue
from advisor.pricing.price import OWN_RATE, PriceKey, PriceRow
from advisor.recommend import AdvisedRun, Market, recommend
from advisor.sizing.demand import Demand

AS_OF = datetime(2026, 8, 22, tzinfo=UTC)
SINCE = AS_OF - timedelta(days=30)
NOW_USD = Decimal("0.40")
JOB = Demand(
    cores_busy_p95=7.5,
    memory_p99_bytes=14 * GIB,
    gpus=0,
    duration_seconds=3600,
    instance_type="m5.2xlarge",
    region="us-east-1",
)
SPANS = st.lists(
    st.tuples(st.integers(0, 3), st.floats(-100, 800), st.floats(0, 300)), min_size=1, max_size=30
)
"""Machine, hours since the beginning of the month, and length."""


def price(usd: str, **key: str) -> PriceRow:
    values = {"provider": "aws", "service": "ec2", "region": "us-east-1"}
    named = PriceKey(**values | {"instance_type": "m5.2xlarge"} | key)
    return PriceRow(named, Decimal(usd), SINCE, None, "test", precedence=OWN_RATE)


def always(machines: int, share: float = 1.0) -> MachineUse:
    """Return the first `share` of every day."""
    days = [SINCE + timedelta(days=number) for number in range(30)]
    spans = [(day, day + timedelta(days=share)) for day in days]
    return MachineUse({str(number): spans for number in range(machines)}, SINCE, AS_OF)


def used(spans: Sequence[tuple[int, float, float]]) -> MachineUse:
    intervals: dict[str, list[tuple[datetime, datetime]]] = {}
    for machine, start, length in spans:
        began = SINCE + timedelta(hours=start)
        intervals.setdefault(str(machine), []).append((began, began + timedelta(hours=length)))
    return MachineUse(intervals, SINCE, AS_OF)


def advise(*rows: PriceRow, **allowed: Any) -> dict[str, Recommendation]:
    book = PriceBook([price("0.40"), *rows])
    may_buy = Buying(**allowed)
    cost = allowed.pop("cost_usd", NOW_USD)
    run = AdvisedRun([], JOB, Spending(cost, 3600, (cost,) * 10))
    found = recommend(run, Market(book, catalogue(), AS_OF, may_buy))
    return {each.kind: each for each in found}


def reserving(usd: str, use: MachineUse | None) -> Recommendation | None:
    row = price(usd, purchase_option="reserved")
    return advise(row, ways=frozenset({"reserved"}), use=use).get("commit")


def test_the_cheapest_allowed_region_is_proposed_and_the_others_are_named() -> None:
    rows = [price("0.30", region="eu-north-1"), price("0.34", region="us-west-2")]
    regions = {name: catalogue() for name in ("eu-north-1", "us-west-2", "eu-west-1")}
    assert "other_region" not in advise(*rows)
    advised = advise(*rows, regions=regions)["other_region"]
    assert advised.change == {"region": "eu-north-1"}
    assert advised.saving_usd == Decimal("0.10")
    assert advised.monthly_saving_usd == 10 * Decimal("0.10")
    assert (advised.rung, advised.risk_dimension) == ("same", "data")
    assert "us-west-2 $0.3400" in " ".join(advised.evidence)
    assert "The transfer of the data isn't counted." in advised.assumptions
    assert any("--region eu-north-1" in line for line in advised.how_to_apply)
    little = advise(price("0.39", region="us-west-2"), regions=regions)
    assert "other_region" not in little


def test_a_machine_that_is_not_sold_in_a_region_is_not_proposed_there() -> None:
    cheaper = price("0.30", region="eu-north-1")
    gone = replace(catalogue()["m5.2xlarge"], is_unlisted=True, last_seen=date(2026, 8, 1))
    for types in ({}, {"m5.2xlarge": gone}):
        assert "other_region" not in advise(cheaper, regions={"eu-north-1": types})
    later = replace(cheaper, valid_from=AS_OF + timedelta(days=1))
    assert "other_region" not in advise(later, regions={"eu-north-1": catalogue()})


def test_a_commitment_needs_a_reserved_price_and_enough_use() -> None:
    assert reserving("0.24", None) is None
    assert "commit" not in advise(ways=frozenset({"reserved"}), use=always(1))
    assert reserving("0.24", always(1, 0.62)) is None
    advised = reserving("0.24", always(1, 0.8))
    assert advised is not None
    assert advised.title == "Commit to 1 × m5.2xlarge"
    assert "Break-even: in use 60 % of the time; it was 80 %." in advised.evidence
    # Of $0.32 an hour that is spent, $0.24 are paid.
    assert advised.saving_usd == pytest.approx(NOW_USD / 4)
    assert advised.risk >= 1.2


def test_as_many_machines_as_pay_are_committed() -> None:
    both = MachineUse(
        {"a": always(1).intervals["0"], "b": always(1, 0.5).intervals["0"]}, SINCE, AS_OF
    )
    assert busy_shares(both) == [1.0, 0.5]
    one, two = reserving("0.24", both), reserving("0.10", both)
    assert one is not None
    assert two is not None
    assert (one.change["machines"], two.change["machines"]) == (1, 2)
    assert any("number 2 was 50 %" in line for line in two.evidence)


def test_use_that_varies_from_week_to_week_is_a_larger_risk_and_a_wider_interval() -> None:
    weeks = [(0, 24.0 * day, 24.0) for day in range(30) if day // 7 != 1]
    steady, varying = reserving("0.28", always(1, 0.77)), reserving("0.28", used(weeks))
    assert steady is not None
    assert varying is not None
    assert varying.risk > steady.risk == 1.2
    assert varying.saving_low_usd == 0
    assert steady.saving_low_usd == pytest.approx(steady.saving_high_usd)


def test_what_excludes_a_commitment_is_not_recommended_beside_it() -> None:
    rows = [
        price("0.24", purchase_option="reserved"),
        price("0.16", purchase_option="spot"),
        price("0.36", region="us-west-2"),
    ]
    allowed = {"use": always(1), "regions": {"us-west-2": catalogue()}}
    advised = advise(*rows, ways=frozenset({"reserved"}), **allowed)
    assert list(advised) == ["commit"]
    assert any("us-west-2" in line for line in advised["commit"].evidence)
    with_spot = advise(*rows, ways=frozenset({"reserved", "spot"}), **allowed)
    assert list(with_spot) == ["buy_spot", "other_region"]
    assert any("Commit to 1" in line for line in with_spot["buy_spot"].evidence)
    joint = joint_saving_usd(list(with_spot.values()), NOW_USD)
    kept = [1 - (each.saving_usd or 0) / NOW_USD for each in with_spot.values()]
    assert joint == pytest.approx(NOW_USD * (1 - kept[0] * kept[1]))


@given(spans=SPANS, seed=st.integers(0, 99), usd=st.decimals("0.01", "0.39", places=2))
def test_commitments_fit_the_use_whatever_it_was(
    spans: list[tuple[int, float, float]], seed: int, usd: Decimal
) -> None:
    """The order of intervals doesn't matter, less than break-even is never committed, and no more
    is saved than was spent."""
    use = used(spans)
    shares = busy_shares(use)
    assert shares == busy_shares(used(random.Random(seed).sample(spans, len(spans))))
    assert shares == sorted(shares, reverse=True)
    assert len(shares) <= 4
    assert all(0 < share <= 1 for share in shares)
    break_even = float(usd / NOW_USD)
    count = count_committed(shares, break_even)
    assert all(share > break_even for share in shares[:count])
    advised = reserving(str(usd), use)
    assert (advised is None) == (count == 0)
    if advised is not None:
        low, middle, high = (
            advised.saving_low_usd or Decimal(0),
            advised.saving_usd or Decimal(0),
            advised.saving_high_usd or Decimal(0),
        )
        assert 0 <= low <= middle <= high <= NOW_USD
        assert middle > 0
