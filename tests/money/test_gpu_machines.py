"""Machines with the same GPU model and fewer GPUs, for runs that don't need all of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.advice.recommendation import Recommendation, Spending
from advisor.pricing.book import PriceBook
from advisor.pricing.bundled import bundled_prices
from advisor.pricing.catalogue import GIB, catalogue
from advisor.pricing.price import PriceKey, PriceRow
from advisor.recommend import AdvisedRun, Market, recommend
from advisor.sizing.demand import BALANCED, SAVE, Demand, Preset
from rules.engine import Judgement
from rules.rule import Numbers, Verdict
from tests.money.recovered import claim, recovered

IN_2020, TODAY = datetime(2020, 12, 15, tzinfo=UTC), datetime(2026, 8, 22, tzinfo=UTC)
PUBLISHED_USD = {"ml.p3.2xlarge": "3.825", "ml.p3.8xlarge": "14.688", "ml.p3.16xlarge": "28.152"}
"""SageMaker training in us-west-2, as an AWS article of 2020 gives them."""
PUBLISHED = Demand(
    cores_busy_p95=0.244 * 32,
    memory_p99_bytes=20 * GIB,
    gpus=4,
    duration_seconds=503,
    instance_type="ml.p3.8xlarge",
    region="us-west-2",
    service="sagemaker_training",
    node_count=3,
)
COST = Decimal("6.15672")
A10G = Demand(3.0, 10 * GIB, 8, 3600, "g5.48xlarge", "us-east-1")


def book_of_2020() -> PriceBook:
    since = datetime(2020, 1, 1, tzinfo=UTC)
    keys = {n: PriceKey("aws", "sagemaker_training", "us-west-2", n) for n in PUBLISHED_USD}
    return PriceBook(
        PriceRow(key, Decimal(PUBLISHED_USD[name]), since, None, "list")
        for name, key in keys.items()
    )


def utilisation(busy: Mapping[str, float], gpus: int) -> Judgement:
    """Return what the rules measured: the mean busy share of each GPU, as `node/gpuN`."""
    numbers: dict[str, float | None] = {"gpus_count": float(gpus)}
    for gpu, share in busy.items():
        numbers |= {
            f"whole_run_p99_pct@{gpu}": min(300 * share, 100.0),
            f"seen_seconds@{gpu}": 1000.0,
            f"idle_seconds@{gpu}": 1000 * (1 - share),
        }
    return Judgement("low_gpu_utilization", 1, {}, Numbers(numbers), Verdict("passed", ""))


def change(
    demand: Demand,
    busy: Mapping[str, float],
    cost_usd: Decimal,
    book: PriceBook,
    as_of: datetime,
    *more: Judgement,
    preset: Preset = BALANCED,
) -> Recommendation | None:
    judgements = [utilisation(busy, demand.gpus * demand.node_count), *more]
    seconds = demand.duration_seconds
    back = recovered(judgements, cost_usd, seconds)
    run = AdvisedRun(judgements, demand, Spending(cost_usd, seconds, ()), recovered=back)
    advised = recommend(run, Market(book, catalogue(), as_of), preset=preset)
    return next((a for a in advised if a.kind == "change_instance_type"), None)


def published_use(busy: float = 0.14) -> dict[str, float]:
    return {f"n{n}/gpu{g}": busy if g < 3 else 0.0 for n in range(3) for g in range(4)}


def test_the_published_case_is_told_two_small_machines() -> None:
    """AWS's article went from 3 x ml.p3.8xlarge ($6.16) to 2 x ml.p3.2xlarge ($1.07)."""
    advised = change(PUBLISHED, published_use(), COST, book_of_2020(), IN_2020)
    assert advised is not None
    assert advised.change == {"instance_type": "ml.p3.2xlarge", "node_count": 2}
    assert advised.rung == "same"
    assert advised.saving_usd is not None
    assert COST - advised.saving_usd < Decimal("1.15")
    assert "9 of 12 GPUs were in use" in " ".join(advised.evidence)
    assert any("instance_count=2" in line for line in advised.how_to_apply)


def test_after_that_the_next_step_is_smaller_still() -> None:
    """The second run's GPUs were busy for 41 % of the time: one could do it all, a little slower,
    which the bold preset accepts."""
    second = replace(
        PUBLISHED, cores_busy_p95=4.5, gpus=1, instance_type="ml.p3.2xlarge", node_count=2
    )
    use = {"n0/gpu0": 0.41, "n1/gpu0": 0.41}
    cost, book = Decimal("1.06675"), book_of_2020()
    assert change(second, use, cost, book, IN_2020) is None
    advised = change(second, use, cost, book, IN_2020, preset=SAVE)
    assert advised is not None
    assert advised.change == {"instance_type": "ml.p3.2xlarge", "node_count": 1}
    assert advised.conflicts_with == ["use_all_gpus"]


def test_busy_gpus_are_not_put_together() -> None:
    assert change(PUBLISHED, published_use(0.9), COST, book_of_2020(), IN_2020) is None


def test_unknown_gpus_may_be_in_use() -> None:
    known = dict(list(published_use().items())[:-1])
    assert change(PUBLISHED, known, COST, book_of_2020(), IN_2020) is None


def test_a_type_that_nothing_later_than_the_list_confirms_is_not_recommended() -> None:
    assert change(PUBLISHED, published_use(), COST, book_of_2020(), TODAY) is None
    long_ago = replace(PUBLISHED, ran_on=date(2026, 3, 31))
    assert change(long_ago, published_use(), COST, book_of_2020(), TODAY) is None


def test_a_recent_run_shows_that_its_family_can_be_started() -> None:
    ran = replace(PUBLISHED, ran_on=date(2026, 8, 20))
    advised = change(ran, published_use(), COST, book_of_2020(), TODAY)
    assert advised is not None
    assert advised.change == {"instance_type": "ml.p3.2xlarge", "node_count": 2}
    [said] = [line for line in advised.assumptions if "check that your region" in line]
    assert said == (
        "ml.p3.2xlarge: last listed on 2026-04-01, but a run used its family on 2026-08-20: "
        "check that your region still offers it."
    )
    assert (
        "--region us-west-2 --filters Name=instance-type,Values=p3.2xlarge"
        in (advised.how_to_apply[0])
    )


def test_a_later_price_outweighs_a_list_that_lacks_the_type() -> None:
    """us-east-1's price of p3.2xlarge was confirmed in August, the list lacks it since April."""
    one_of_four = Demand(3.0, 10 * GIB, 4, 3600, "p3.8xlarge", "us-east-1")
    use = {f"n/gpu{g}": 0.9 if g == 0 else 0.0 for g in range(4)}
    advised = change(one_of_four, use, Decimal("12.24"), PriceBook(bundled_prices()), TODAY)
    assert advised is not None
    assert advised.change == {"instance_type": "p3.2xlarge", "node_count": 1}
    assert advised.saving_usd == Decimal("9.18")
    assert "price was confirmed on 2026-08-26" in " ".join(advised.assumptions)


def test_one_busy_gpu_of_eight_goes_to_the_smallest_machine_with_that_gpu() -> None:
    busy = {f"n/gpu{g}": 0.95 if g == 0 else 0.0 for g in range(8)}
    book = PriceBook(bundled_prices())
    claims = claim("unused_gpus", 1575, 3150)
    unused = Judgement(
        "unused_gpus", 1, {}, Numbers({}), Verdict("fired", "7 GPUs.", "Use them.", claims)
    )
    advised = change(A10G, busy, Decimal("16.288"), book, TODAY, unused)
    assert advised is not None
    assert catalogue()[advised.change["instance_type"]].gpu_count == 1
    assert catalogue()[advised.change["instance_type"]].gpu_model == "A10G"
    assert advised.conflicts_with == ["use_all_gpus"]
    assert any(line.startswith("Or: Give the unused GPUs work") for line in advised.evidence)


@settings(max_examples=25, deadline=None)
@given(
    busy=st.lists(st.floats(0, 1), min_size=8, max_size=8),
    cores=st.floats(0.1, 190),
    cost=st.decimals("0.01", "100", places=4),
    nodes=st.integers(1, 3),
)
def test_no_machine_violates_a_constraint_or_costs_more(
    busy: list[float], cores: float, cost: Decimal, nodes: int
) -> None:
    demand = replace(A10G, cores_busy_p95=cores, node_count=nodes)
    use = {f"n{n}/gpu{g}": share for n in range(nodes) for g, share in enumerate(busy)}
    advised = change(demand, use, cost, PriceBook(bundled_prices()), TODAY)
    if advised is None:
        return
    chosen, count = catalogue()[advised.change["instance_type"]], advised.change["node_count"]
    load = sum(share for share in use.values() if min(300 * share, 100) > 2)
    assert not chosen.is_unlisted
    assert count <= nodes
    assert chosen.memory_bytes * 0.95 >= demand.memory_p99_bytes * 1.1
    assert not load or chosen.gpu_model == "A10G"
    used = sum(min(300 * share, 100) > 2 for share in use.values())
    assert chosen.gpu_count * count >= min(load / 0.9, used) - 1e-6
    row = advised.candidates[0]
    assert row["instance_type"] == chosen.name
    assert not row["rejected_because"]
    assert Decimal(row["cost_high_usd"]) <= cost
    assert 0 <= (advised.saving_usd or 0) <= cost
