"""Machines are checked against what the run needs after the fixes that they are advised with."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.advice.order import joint_saving_usd
from advisor.advice.recommendation import Spending
from advisor.pricing.book import PriceBook
from advisor.pricing.bundled import bundled_prices
from advisor.pricing.catalogue import GIB, catalogue
from advisor.recommend import AdvisedRun, Market, Recommendation, recommend
from advisor.sizing.candidates import candidates
from advisor.sizing.demand import Demand
from rules.engine import Judgement
from rules.rule import Numbers, Verdict
from tests.money.recovered import claim, recovered

AS_OF = datetime(2026, 8, 22, tzinfo=UTC)
BOOK = PriceBook(bundled_prices())
HOURS = 2
COST = HOURS * Decimal("5.672")
FOUR_GPUS = Demand(3.0, 20 * GIB, 4, 3600 * HOURS, "g5.12xlarge", "us-east-1")
SMALLEST_USD = Decimal("1.006")
"""An hour of g5.xlarge, the cheapest machine with the GPU."""


def utilisation(busy: float, gpus: int = 4) -> Judgement:
    numbers: dict[str, float | None] = {"gpus_count": float(gpus)}
    for n in range(gpus):
        numbers |= {
            f"whole_run_p99_pct@n/gpu{n}": 100.0,
            f"seen_seconds@n/gpu{n}": 1000.0,
            f"idle_seconds@n/gpu{n}": 1000 * (1 - busy),
        }
    return Judgement("low_gpu_utilization", 1, {}, Numbers(numbers), Verdict("passed", ""))


def waiting(share: float, least: float | None = None) -> Judgement:
    seconds = FOUR_GPUS.duration_seconds
    numbers: dict[str, float | None] = {
        "wait_share_pct": 100 * share,
        "step_seconds": seconds,
        "run_seconds": seconds,
    }
    low = seconds * (share if least is None else least)
    claims = claim("input_bound", low, seconds * share)
    verdict = Verdict("fired", "It waited.", claims=claims)
    return Judgement("input_bound", 1, {}, Numbers(numbers), verdict)


def advise(*judgements: Judgement, demand: Demand = FOUR_GPUS) -> dict[str, Recommendation]:
    cost = COST * Decimal(str(demand.duration_seconds / FOUR_GPUS.duration_seconds))
    back = recovered(judgements, cost, demand.duration_seconds)
    spending = Spending(cost, demand.duration_seconds, ())
    run = AdvisedRun(judgements, demand, spending, recovered=back)
    advised = recommend(run, Market(BOOK, catalogue(), AS_OF))
    return {each.kind: each for each in advised}


def test_fixed_and_switched_never_costs_less_than_the_work_of_its_gpus() -> None:
    """Four GPUs at 20 % do the work of 0.8; the loader takes 75 % of the time."""
    advised = advise(utilisation(0.2), waiting(0.75, least=0.35))
    change, fix = advised["change_instance_type"], advised["fix_input_pipeline"]
    assert catalogue()[change.change["instance_type"]].gpu_count == 1
    usd_per_hour = Decimal(change.candidates[0]["usd_per_hour"])
    left = COST - joint_saving_usd([change, fix], COST)
    assert left >= Decimal("0.8") * HOURS * usd_per_hour
    assert left == pytest.approx(Decimal("0.8") * HOURS * usd_per_hour, rel=Decimal("0.05"))
    alone = COST - (change.saving_usd or 0)
    assert left < alone
    assert f"${COST - left:.2f}" in change.evidence[-1] == fix.evidence[-1]
    assert list(advised).index(change.kind) < list(advised).index(fix.kind)
    assert "the other machine alone saves" in change.evidence[-1].split(",")[1]
    assert not any("first" in line for line in change.evidence)


def test_the_fixed_run_keeps_its_four_busy_gpus() -> None:
    """A quarter of the time at 80 % is left: one GPU would take 3.2 times as long."""
    fixed = FOUR_GPUS.done_faster(0.75)
    assert fixed.duration_seconds == FOUR_GPUS.duration_seconds / 4
    assert "change_instance_type" not in advise(utilisation(0.8), demand=fixed)


def test_a_machine_that_does_not_hold_the_fixed_run_excludes_the_fix() -> None:
    """The fixed run keeps twice as many cores busy, too many for the only cheaper machine."""
    two = {name: catalogue()[name] for name in ("m5.2xlarge", "m5.large")}
    demand = Demand(1.3, 2 * GIB, 0, FOUR_GPUS.duration_seconds, "m5.2xlarge", "us-east-1")
    cost = HOURS * Decimal("0.384")
    seconds = demand.duration_seconds
    back = recovered([waiting(0.5)], cost, seconds)
    run = AdvisedRun([waiting(0.5)], demand, Spending(cost, seconds, ()), recovered=back)
    [kept] = recommend(run, Market(BOOK, two, AS_OF))
    assert kept.change == {"instance_type": "m5.large", "node_count": 1}
    assert kept.evidence[-2].startswith("Not together with the fix of the input pipeline")
    assert kept.evidence[-1].startswith("Or: Load data in parallel")


@settings(deadline=None, max_examples=30)
@given(
    busy=st.floats(0.02, 0.95),
    wait=st.floats(0.05, 0.95),
    least=st.floats(0, 1),
    cores=st.floats(0.1, 40),
)
def test_what_both_save_stands_on_the_scale_of_each(
    busy: float, wait: float, least: float, cores: float
) -> None:
    demand = replace(FOUR_GPUS, cores_busy_p95=cores)
    wait = min(wait, 1 - busy)
    advised = advise(utilisation(busy), waiting(wait, wait * least), demand=demand)
    change, fix = advised.get("change_instance_type"), advised.get("fix_input_pipeline")
    if change is None or fix is None or not change.saving_usd or not fix.saving_usd:
        return
    left = COST - joint_saving_usd([change, fix], COST)
    usd_per_hour = Decimal(change.candidates[0]["usd_per_hour"])
    gpus = change.candidates[0]["gpus"]
    work = Decimal(str(4 * busy / max(gpus, 1))) * HOURS * usd_per_hour
    assert left >= min(work, COST) * Decimal("0.999")
    assert left <= COST - fix.saving_usd


@pytest.mark.parametrize(
    ("needs", "reason"),
    [
        ({"disk_bytes_per_second": 900e6}, "too slow a disk"),
        ({"network_bytes_per_second": 2e9}, "too slow a network"),
        ({"disk_bytes_per_second": 1e6, "network_bytes_per_second": 1e6}, ""),
    ],
)
def test_a_machine_must_sustain_the_disk_and_network_rates(
    needs: dict[str, float], reason: str
) -> None:
    demand = Demand(1.0, 4 * GIB, 0, 3600, "m5.12xlarge", "us-east-1", **needs)  # type: ignore[arg-type]
    table = candidates(demand, BOOK, catalogue(), AS_OF)
    [small] = [each for each in table if each.instance_type == "m5.large"]
    [now] = [each for each in table if each.instance_type == "m5.12xlarge"]
    assert reason in small.rejected_because
    assert bool(reason) is bool(small.rejected_because)
    assert now.rejected_because == ""
    faster = candidates(demand.done_faster(0.5), BOOK, catalogue(), AS_OF)
    fitting = {each.instance_type for each in table if not each.rejected_because}
    assert {each.instance_type for each in faster if not each.rejected_because} <= fitting
