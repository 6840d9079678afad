"""The answers to "what if a job were bought, placed or run in another way"."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.pricing.book import PriceBook
from advisor.pricing.bundled import bundled_prices
from advisor.pricing.catalogue import GIB, catalogue
from advisor.sizing.demand import Demand
from advisor.sizing.objective import Cheapest, Deadline, Fastest
from advisor.whatif import WhatIfAnswer, WhatIfQuestion, what_if
from tests.cpu_time import is_within

AS_OF = datetime(2026, 8, 22, tzinfo=UTC)
BOOK = PriceBook(bundled_prices())
JOB = Demand(6.0, 8 * GIB, 0, 36_000, "m5.2xlarge", "us-east-1")
COST = Decimal("3.84")


def ask(demand: Demand = JOB, **question: object) -> WhatIfAnswer:
    return what_if(demand, WhatIfQuestion(**question), BOOK, catalogue(), AS_OF)  # type: ignore[arg-type]


def test_the_cheapest_may_be_slower_only_as_far_as_asked() -> None:
    bound, free = ask(objective=Cheapest(0.1)).chosen, ask(objective=Cheapest(None)).chosen
    assert bound is not None
    assert free is not None
    assert bound.time_mid_seconds <= 39_600
    assert (free.cost_mid_usd or 0) <= (bound.cost_mid_usd or 0)


def test_the_fastest_keeps_to_its_budget_and_a_larger_one_is_no_slower() -> None:
    little, much = (ask(objective=Fastest(Decimal(usd))).chosen for usd in ("2.5", "6"))
    assert little is not None
    assert much is not None
    assert (little.cost_high_usd or 9) <= Decimal("2.5")
    assert much.time_mid_seconds <= little.time_mid_seconds < 36_000
    assert ask(objective=Fastest(Decimal("0.001"))).chosen is None


def test_a_deadline_holds_at_the_adverse_end_and_may_cost_more() -> None:
    done = ask(objective=Deadline(24_000)).chosen
    assert done is not None
    assert done.time_high_seconds <= 24_000
    assert ask(objective=Deadline(60)).chosen is None


def test_the_front_is_those_that_nothing_beats_in_time_and_cost() -> None:
    answer = ask(options=("on_demand", "spot"), checkpoint_seconds=30.0)
    places = [(c.time_mid_seconds, c.cost_mid_usd or 0) for c in answer.front]
    assert len(places) > 1
    assert places == sorted(places)
    for each in answer.table:
        if not each.rejected_because and each.cost_mid_usd is not None:
            time_and_cost = each.time_mid_seconds, each.cost_mid_usd
            assert any(t <= time_and_cost[0] and c <= time_and_cost[1] for t, c in places)
    costs = [cost for _, cost in places]
    assert costs == sorted(costs, reverse=True)


def test_spot_pays_with_checkpoints_and_hardly_ever_without() -> None:
    with_checkpoints = ask(options=("on_demand", "spot"), checkpoint_seconds=30.0)
    assert with_checkpoints.chosen is not None
    assert with_checkpoints.chosen.purchase_option == "spot"
    assert with_checkpoints.interval_seconds == pytest.approx(2277, rel=0.02)
    week = replace(JOB, duration_seconds=7 * 86_400)
    without = ask(week, options=("on_demand", "spot"), interruption_hours=5.0).chosen
    assert without is not None
    assert without.purchase_option == "on_demand"


def test_a_longer_interval_than_the_best_costs_time() -> None:
    question = {"options": ("spot",), "checkpoint_seconds": 30.0, "interruption_hours": 5.0}
    best = ask(**question).chosen
    rare = ask(**question, checkpoint_interval_seconds=18_000.0).chosen
    assert best is not None
    assert rare is not None
    assert (rare.cost_mid_usd or 0) > (best.cost_mid_usd or 0)


def test_twice_the_epochs_take_twice_the_training_and_one_start_up() -> None:
    once, twice = ask(fixed_seconds=6000.0), ask(fixed_seconds=6000.0, work=2.0, runs_a_month=10)
    present = [
        next(c for c in answer.table if c.instance_type == "m5.2xlarge") for answer in (once, twice)
    ]
    assert [c.time_mid_seconds for c in present] == [36_000, 66_000]
    assert twice.chosen is not None
    assert twice.monthly_usd == (twice.chosen.cost_mid_usd or 0) * 10


def test_another_region_has_its_own_prices() -> None:
    both = ask(regions=("us-east-1", "eu-west-1"))
    assert {c.region for c in both.table} == {"us-east-1", "eu-west-1"}
    assert both.chosen is not None
    assert both.chosen.region == "us-east-1"


def test_all_types_are_answered_in_a_fifth_of_a_second() -> None:
    ask()
    began = time.process_time()
    answer = ask()
    assert is_within(time.process_time() - began, 0.2)
    assert len(answer.table) > 500


@settings(max_examples=20, deadline=None)
@given(
    slower=st.floats(0, 3), cores=st.floats(0.1, 8), gib=st.floats(0.1, 30), work=st.floats(0.1, 10)
)
def test_the_cheapest_never_costs_more_than_staying(
    slower: float, cores: float, gib: float, work: float
) -> None:
    demand = replace(JOB, cores_busy_p95=cores, memory_p99_bytes=gib * GIB)
    answer = ask(demand, objective=Cheapest(slower), work=work)
    now = next(c for c in answer.table if c.instance_type == "m5.2xlarge")
    assert answer.chosen is not None
    assert (answer.chosen.cost_mid_usd or 0) <= (now.cost_mid_usd or 0)
    assert not answer.chosen.rejected_because
    assert answer.chosen in answer.front or slower < 3
