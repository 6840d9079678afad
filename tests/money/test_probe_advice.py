"""Another GPU: measured before it is promised."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.advice.recommendation import MOST_RISK_MAILED, Recommendation, Spending
from advisor.pricing.book import PriceBook
from advisor.pricing.bundled import bundled_prices
from advisor.pricing.catalogue import GIB, catalogue
from advisor.recommend import AdvisedRun, Market, recommend
from advisor.sizing.demand import Demand
from advisor.sizing.other_gpus import SpeedEvidence
from advisor.speed.knowledge import Knowledge
from advisor.speed.measurement import Measurement
from tests.money.test_gpu_machines import utilisation

AS_OF = datetime(2026, 8, 22, tzinfo=UTC)
BOOK = PriceBook(bundled_prices())
JOB = Demand(2.0, 10 * GIB, 1, 3600, "g4dn.xlarge", "us-east-1")
COST = Decimal("0.526")
HERE = Measurement("job", "T4", 100.0, batch=32, util_pct=95, util_kind="busy")


def advise(
    evidence: SpeedEvidence | None = None,
    runs: int = 30,
    busy: float = 0.95,
    demand: Demand = JOB,
    cost: Decimal = COST,
) -> dict[str, Recommendation]:
    spending = Spending(cost, demand.duration_seconds, (cost,) * runs)
    run = AdvisedRun([utilisation({"n/gpu0": busy}, 1)], demand, spending)
    market = Market(BOOK, catalogue(), AS_OF)
    advised = recommend(run, market, evidence or SpeedEvidence())
    return {each.kind: each for each in advised}


def measured(gpu: str, throughput: float) -> SpeedEvidence:
    there = Measurement("job", gpu, throughput, batch=32, probe_steps=200, rel_sd=0.03)
    return SpeedEvidence((HERE, there), rounds=2)


def test_public_figures_never_say_switch_but_what_to_measure_first() -> None:
    advised = advise()
    assert set(advised) == {"probe"}
    probe = advised["probe"]
    assert probe.rung == "prior"
    assert 1 <= len(probe.change["probe"]) <= 2
    assert probe.saving_low_usd == 0
    assert probe.risk <= MOST_RISK_MAILED
    text = " ".join([*probe.evidence, *probe.how_to_apply])
    for words in ("one of them is cheaper", "at most $", "trimtab probe --steps 200 --"):
        assert words in text
    assert any("expected value: 0 if none is cheaper" in each for each in probe.assumptions)
    for name in probe.change["probe"]:
        assert name in text
        assert not catalogue()[name].is_unlisted


def test_sagemaker_is_told_an_estimator_with_a_short_limit() -> None:
    job = replace(JOB, instance_type="ml.g4dn.xlarge", service="sagemaker_training")
    probe = advise(demand=job, cost=Decimal("0.7364"))["probe"]
    assert any("Estimator(" in line and "max_run=1800" in line for line in probe.how_to_apply)


@pytest.mark.parametrize("runs", [0, 1])
def test_no_probe_costs_more_than_what_it_may_save_in_a_month(runs: int) -> None:
    assert advise(runs=runs) == {}


@settings(max_examples=15, deadline=None)
@given(runs=st.integers(0, 60), busy=st.floats(0.05, 1), minutes=st.floats(2, 600))
def test_a_probe_always_costs_less_than_a_month_of_its_expected_saving(
    runs: int, busy: float, minutes: float
) -> None:
    demand = replace(JOB, duration_seconds=60 * minutes)
    cost = (COST * Decimal(str(minutes)) / 60).quantize(Decimal("0.000001"))
    advised = advise(runs=runs, busy=busy, demand=demand, cost=cost)
    assert "change_instance_type" not in advised or advised["change_instance_type"].rung == "same"
    if probe := advised.get("probe"):
        hourly = sum(Decimal(row["usd_per_hour"]) for row in probe.candidates)
        assert hourly / 2 <= cost * runs
        assert 0 < (probe.saving_usd or 0) <= cost


def test_of_what_nobody_has_measured_a_month_counts_the_low_end() -> None:
    probe = advise(runs=30)["probe"]
    assert (probe.rung, probe.saving_low_usd, probe.monthly_saving_usd) == ("prior", 0, 0)


def test_a_probe_that_was_fast_enough_turns_into_a_switch() -> None:
    switch = advise(measured("L4", 260.0))["change_instance_type"]
    assert switch.change["instance_type"] == "g6.xlarge"
    assert switch.rung == "measured"
    assert "The processor differs" not in " ".join(switch.assumptions)
    price = Decimal("0.8048") / Decimal("0.526")
    kept = 1 - (switch.saving_usd or Decimal(0)) / COST
    assert kept == pytest.approx(price / Decimal("2.6"), rel=Decimal("0.03"))


def test_a_probe_that_was_slow_turns_into_staying() -> None:
    assert "change_instance_type" not in advise(measured("L4", 120.0))


def test_other_jobs_of_the_workspace_may_allow_a_switch_if_they_are_sure_enough() -> None:
    others = [
        Measurement(f"other{n}", gpu, 100.0 * speed, precision="fp16", batch=32)
        for n in range(8)
        for gpu, speed in (("T4", 1.0), ("L4", 3.2))
    ]
    here = replace(HERE, precision="fp16")
    advised = advise(SpeedEvidence((here,), Knowledge(others)))
    change, probe = advised.get("change_instance_type"), advised.get("probe")
    assert change is not None or probe is not None
    if change is not None:
        assert change.rung == "history"


def test_a_gpu_with_too_little_memory_is_no_candidate() -> None:
    """The other GPU needs as much as this one has, as long as nobody knows how much is used."""
    job = replace(JOB, instance_type="g6e.xlarge")
    probe = advise(demand=job, cost=Decimal("1.861")).get("probe")
    names = probe.change["probe"] if probe else []
    assert all(catalogue()[name].gpu_memory_bytes >= 44 * GIB for name in names)
