"""Recommendations from a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.pricing.book import PriceBook
from advisor.pricing.bundled import bundled_prices
from advisor.pricing.catalogue import GIB, catalogue
from advisor.recommend import Recommendation, recommend
from advisor.sizing.demand import SAFE, Demand
from rules.engine import Judgement
from rules.rule import Numbers, Verdict

AS_OF = datetime(2026, 8, 22, tzinfo=UTC)
BOOK = PriceBook(bundled_prices())
COST = Decimal("0.384")
"""An hour of the m5.2xlarge below."""
JOB = Demand(
    cores_busy_p95=1.3,
    memory_p99_bytes=2 * GIB,
    gpus=0,
    duration_seconds=3600,
    instance_type="m5.2xlarge",
    region="us-east-1",
)
WAITS = Judgement(
    "input_bound",
    1,
    {},
    Numbers({}),
    Verdict("fired", "It waited.", waste_seconds_low=1200, waste_seconds_high=1800),
)
PASSED = replace(WAITS, verdict=Verdict("passed", "It did not wait."))


def advise(
    judgements: Sequence[Judgement] = (),
    demand: Demand | None = JOB,
    cost_usd: Decimal | None = COST,
    recent_costs_usd: Sequence[Decimal] = (COST, COST, COST),
    **more: Any,
) -> dict[str, Recommendation]:
    seconds = demand.duration_seconds if demand else 3600.0
    recommendations = recommend(
        judgements, demand, cost_usd, seconds, recent_costs_usd, BOOK, catalogue(), AS_OF, **more
    )
    return {recommendation.kind: recommendation for recommendation in recommendations}


def test_a_loop_that_waits_is_told_to_load_in_parallel_for_its_share_of_the_cost() -> None:
    fix = advise([WAITS])["fix_input_pipeline"]
    assert fix.saving_low_usd == Decimal("0.128")
    assert fix.saving_usd == Decimal("0.160")
    assert fix.saving_high_usd == Decimal("0.192")


def test_a_month_is_the_runs_that_happened_and_no_others() -> None:
    assert advise([WAITS])["fix_input_pipeline"].monthly_saving_usd == Decimal("0.480")
    seldom = advise([WAITS], recent_costs_usd=[COST])
    assert seldom["fix_input_pipeline"].monthly_saving_usd == Decimal("0.160")


def test_a_rule_that_passed_gives_no_advice() -> None:
    assert "fix_input_pipeline" not in advise([PASSED])


def test_the_memory_that_a_leak_reached_sizes_no_machine() -> None:
    leak = replace(WAITS, rule_id="host_memory_leak")
    assert "change_instance_type" in advise([PASSED])
    assert set(advise([leak])) == set()
    assert "change_instance_type" in advise([replace(leak, verdict=PASSED.verdict)])


def test_without_a_price_the_fix_is_named_and_no_money() -> None:
    recommendations = advise([WAITS], cost_usd=None, recent_costs_usd=[])
    assert set(recommendations) == {"fix_input_pipeline"}
    fix = recommendations["fix_input_pipeline"]
    assert (fix.saving_low_usd, fix.saving_usd, fix.monthly_saving_usd) == (None, None, None)
    assert "1200 to 1800 s" in " ".join(fix.evidence)


def test_a_mostly_idle_machine_is_replaced_by_a_smaller_one_that_can_be_started() -> None:
    change = advise()["change_instance_type"]
    chosen = catalogue()[change.change["instance_type"]]
    assert chosen.vcpus == 2
    assert not chosen.retired
    assert chosen.architecture == "x86_64"
    assert change.saving_usd is not None
    assert change.saving_usd > COST / 2


def test_a_full_machine_stays() -> None:
    full = replace(JOB, instance_type="c6a.2xlarge", cores_busy_p95=7.8, memory_p99_bytes=15 * GIB)
    assert advise(demand=full, cost_usd=Decimal("0.306")) == {}


def test_a_short_run_says_too_little_of_the_next() -> None:
    short = replace(JOB, duration_seconds=29)
    assert advise(demand=short, cost_usd=Decimal("0.003")) == {}
    enough = replace(JOB, duration_seconds=31)
    assert "change_instance_type" in advise(demand=enough, cost_usd=Decimal("0.003307"))


def test_it_never_proposes_a_machine_that_is_gone() -> None:
    """p3 types keep their prices, and are no longer available."""
    gpu_job = replace(JOB, instance_type="p3.8xlarge", gpus=1, region="us-west-2")
    recommendations = advise(demand=gpu_job, cost_usd=Decimal("12.24"))
    assert recommendations == {}


def test_the_loader_comes_first_and_the_machine_is_sized_for_what_it_then_does() -> None:
    both = advise([WAITS])
    assert list(both) == ["fix_input_pipeline", "change_instance_type"]
    alone = advise()["change_instance_type"]
    after = both["change_instance_type"]
    machines = [
        catalogue()[recommendation.change["instance_type"]] for recommendation in (alone, after)
    ]
    assert machines[0].vcpus < machines[1].vcpus
    assert any("Fix the input pipeline first" in line for line in after.evidence)


def test_the_table_shows_the_chosen_the_present_and_why_not_the_others() -> None:
    change = advise()["change_instance_type"]
    names = [row["instance_type"] for row in change.candidates]
    assert names[:2] == [change.change["instance_type"], "m5.2xlarge"]
    assert any(row["rejected_because"] for row in change.candidates)
    assert json.loads(json.dumps(change.candidates)) == change.candidates


def test_a_safer_preset_saves_no_more() -> None:
    tight = replace(JOB, cores_busy_p95=1.5)
    normal, safe = advise(demand=tight), advise(demand=tight, preset=SAFE)
    assert normal["change_instance_type"].saving_usd > safe["change_instance_type"].saving_usd  # type: ignore[operator]


def test_nothing_is_proposed_for_what_was_not_measured() -> None:
    assert advise(demand=None) == {}
    assert advise([WAITS], demand=None)["fix_input_pipeline"].risk_dimension.endswith(
        "(not measured)"
    )


def test_half_a_machine_is_compared_with_what_it_cost_and_not_with_the_whole() -> None:
    tenth = advise(cost_usd=COST / 10)
    assert tenth == {}


@settings(max_examples=60, deadline=None)
@given(
    cores=st.floats(0, 128),
    gib=st.floats(0, 600),
    seconds=st.floats(0.001, 1e6),
    cost=st.decimals("0", "100000", places=9),
    recent=st.lists(st.decimals("0", "1000", places=9), max_size=5),
    low=st.floats(0, 1e7),
    more=st.floats(0, 1e7),
    name=st.sampled_from(["m5.2xlarge", "c5.18xlarge", "g5.48xlarge", "p3.8xlarge", "nothing"]),
    gpus=st.integers(0, 8),
)
def test_a_saving_is_never_below_nothing_nor_above_what_was_spent(
    cores: float,
    gib: float,
    seconds: float,
    cost: Decimal,
    recent: list[Decimal],
    low: float,
    more: float,
    name: str,
    gpus: int,
) -> None:
    waits = replace(
        WAITS,
        verdict=Verdict("fired", "", waste_seconds_low=low, waste_seconds_high=low + more),
    )
    demand = Demand(cores, gib * GIB, gpus, seconds, name, "us-east-1")
    recommendations = advise([waits], demand, cost, recent).values()
    assert len({recommendation.kind for recommendation in recommendations}) == len(recommendations)
    for recommendation in recommendations:
        savings = (
            recommendation.saving_low_usd,
            recommendation.saving_usd,
            recommendation.saving_high_usd,
        )
        known = [saving for saving in savings if saving is not None]
        assert len(known) == 3
        assert Decimal(0) <= known[0] <= known[1] <= known[2] <= cost
        assert 0 <= (recommendation.monthly_saving_usd or 0) <= sum(recent)
        assert 0 <= recommendation.risk <= 4
