"""Recommendations from a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.advice.buying import AS_NOW, Buying
from advisor.advice.checked import checked_lines, conclusion, findings_of
from advisor.advice.inputs import Input
from advisor.advice.kinds import KINDS
from advisor.advice.order import counted_saving_usd, joint_saving_usd
from advisor.advice.recommendation import MEASURED, MOST_RISK_MAILED, SAME, Spending
from advisor.money import NANO_USD
from advisor.pricing.book import PriceBook
from advisor.pricing.bundled import bundled_prices
from advisor.pricing.catalogue import GIB, catalogue
from advisor.pricing.price import PriceRow
from advisor.recommend import AdvisedRun, Market, Recommendation, recommend
from advisor.sizing.cpu import RatioInterval
from advisor.sizing.demand import BALANCED, SAFE, Demand, Preset
from advisor.sizing.other_gpus import SpeedEvidence
from rules.category import OVERVIEW
from rules.engine import Judgement
from rules.registry import all_rules
from rules.rule import Numbers, Verdict
from tests.money.recovered import claim, recovered

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
    Verdict("fired", "It waited.", claims=claim("input_bound", 1200, 1800)),
)
BUYS_SPOT, BUYS_EC2 = (Buying(frozenset([way])) for way in ("spot", "ec2"))
LACKS = Verdict("insufficient_data", "Missing: X.")
PASSED = replace(WAITS, verdict=Verdict("passed", "It did not wait."))
UNMEASURED = ("batch_size", "channels_last", "full_precision")
"""The rules whose fix nobody has tried on this training."""


def finding(rule: str, low: float, high: float, **numbers: float) -> Judgement:
    verdict = Verdict("fired", "It was so.", "Do it.", claim(rule, low, high))
    return Judgement(rule, 1, {}, Numbers(numbers), verdict)


def advise(
    judgements: Sequence[Judgement] = (),
    demand: Demand | None = JOB,
    cost_usd: Decimal | None = COST,
    recent_costs_usd: Sequence[Decimal] = (COST, COST, COST),
    book: PriceBook = BOOK,
    may_buy: Buying = AS_NOW,
    preset: Preset = BALANCED,
    **more: Any,
) -> dict[str, Recommendation]:
    seconds = demand.duration_seconds if demand else 3600.0
    spending = Spending(cost_usd, seconds, tuple(recent_costs_usd))
    back = recovered(judgements, cost_usd, seconds)
    run = AdvisedRun(judgements, demand, spending, recovered=back, **more)
    market = Market(book, catalogue(), AS_OF, may_buy)
    recommendations = recommend(run, market, preset=preset)
    return {recommendation.kind: recommendation for recommendation in recommendations}


def test_a_loop_that_waits_is_told_to_load_in_parallel_for_its_share_of_the_cost() -> None:
    fix = advise([WAITS])["fix_input_pipeline"]
    assert fix.saving_low_usd == pytest.approx(Decimal("0.128"), abs=NANO_USD)
    assert fix.saving_usd == pytest.approx(Decimal("0.160"), abs=NANO_USD)
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
    assert set(advise([leak])) == {"fix_memory_leak"}
    assert "change_instance_type" in advise([replace(leak, verdict=PASSED.verdict)])


def test_without_a_price_the_fix_is_named_and_no_money() -> None:
    recommendations = advise([WAITS], cost_usd=None, recent_costs_usd=[])
    assert set(recommendations) == {"fix_input_pipeline"}
    fix = recommendations["fix_input_pipeline"]
    assert (fix.saving_low_usd, fix.saving_usd, fix.monthly_saving_usd) == (None, None, None)
    assert "20.0 min to 30.0 min" in " ".join(fix.evidence)


def test_a_mostly_idle_machine_is_replaced_by_a_smaller_one_that_can_be_started() -> None:
    change = advise()["change_instance_type"]
    chosen = catalogue()[change.change["instance_type"]]
    assert chosen.vcpus == 2
    assert not chosen.is_unlisted
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


def confirmed_until_listed(row: PriceRow) -> PriceRow:
    """Return the row as it was seen on the last day on which its machine was listed."""
    machine = catalogue().get(row.key.instance_type)
    if machine is None or not machine.is_unlisted:
        return row
    return replace(row, seen_at=datetime.combine(machine.last_seen, time(), UTC))


def test_it_proposes_to_measure_only_machines_that_are_listed() -> None:
    """Nothing later than the list that lacks p3 types confirms them."""
    gpu_job = replace(JOB, instance_type="p3.8xlarge", gpus=1, region="us-west-2")
    book = PriceBook(map(confirmed_until_listed, bundled_prices()))
    recommendations = advise(demand=gpu_job, cost_usd=Decimal("12.24"), book=book)
    assert set(recommendations) == {"probe"}
    for name in recommendations["probe"].change["probe"]:
        assert not catalogue()[name].is_unlisted


def test_the_machine_is_sized_for_what_it_does_once_the_loader_is_fixed() -> None:
    both = advise([WAITS])
    alone = advise()["change_instance_type"]
    after = both["change_instance_type"]
    machines = [
        catalogue()[recommendation.change["instance_type"]] for recommendation in (alone, after)
    ]
    assert machines[0].vcpus < machines[1].vcpus
    assert any("sized for the run after the input pipeline is fixed" in e for e in after.evidence)


@pytest.mark.parametrize("waited_seconds", [300, 1200, 2600])
def test_the_fix_and_the_machine_come_by_what_they_save_and_are_named_so(
    waited_seconds: float,
) -> None:
    """The command had the loader first, pages what saved more."""
    both = advise([finding("input_bound", waited_seconds, waited_seconds * 1.1)])
    savings = [counted_saving_usd(each) for each in both.values()]
    assert len(both) == 2
    assert savings == sorted(savings, reverse=True)
    names = {"fix_input_pipeline": "the loader's fix", "change_instance_type": "the other machine"}
    for each in both.values():
        said = each.evidence[-1]
        assert said.startswith("Of $0.3840 a run, ")
        places = [said.index(f"{names[key]} alone saves $0.") for key in both]
        assert places == sorted(places)


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


@pytest.mark.parametrize("rule", sorted(KINDS))
def test_every_finding_that_has_a_price_says_what_to_do_and_how(rule: str) -> None:
    """The advice saves its share of the cost; the loss that a risk may cause later isn't this
    run's.
    """
    [advised] = advise([finding(rule, 360, 1080)], None).values()
    is_risk = not all_rules()[rule].claims_on
    assert advised.saving_usd == (None if is_risk else COST / 5)
    assert advised.how_to_apply[0] == "Do it."
    assert len(advised.how_to_apply) > 1
    assert advised.risk_reason.endswith(".")
    assert advised.rung == ("prior" if rule in UNMEASURED else "measured")
    assert advised.risk <= MOST_RISK_MAILED


def test_every_rule_with_waste_has_an_answer() -> None:
    sized = {"cpu_oversized", "low_gpu_utilization", "gpus_not_measured", "step_outlier"}
    sized |= {"gpu_errors"}  # It claims nothing.
    priced = {rule.id for rule in all_rules().values() if rule.category != OVERVIEW}
    assert priced - sized == KINDS.keys() | {"input_bound"}


def test_half_the_time_in_checkpoints_is_fixed_before_the_machine_is_changed() -> None:
    assert "change_instance_type" in advise()
    stalls = finding("checkpoint_stalls", 1184, 1607)
    assert list(advise([stalls])) == ["fix_checkpoints"]


def test_one_cause_is_told_once() -> None:
    """The interval is explained by the stalls, so that only one of them is advice."""
    both = [finding("checkpoint_interval", 300, 600), finding("checkpoint_stalls", 700, 950)]
    for judgements in (both, both[::-1]):
        advised = advise(judgements, None)
        assert list(advised) == ["fix_checkpoints"]
        assert advised["fix_checkpoints"].saving_high_usd == Decimal("0.101333333")


def test_full_cores_are_never_told_to_load_in_parallel() -> None:
    full = finding("input_bound", 1200, 1800, cpu_busy_p50_pct=95)
    many = finding("input_bound", 1200, 1800, loader_workers=8, cores_per_rank=8)
    busy = replace(JOB, cores_busy_p95=6.0)
    for waits, demand in ((full, JOB), (many, JOB), (WAITS, busy)):
        fix = advise([waits], demand)["fix_input_pipeline"]
        assert fix.change == {"input_pipeline": "cheaper preparation"}
        assert "parallel" not in fix.title
    assert "parallel" in advise([WAITS])["fix_input_pipeline"].title


def test_a_healthy_run_is_told_what_was_checked_and_what_is_missing() -> None:
    unknown = replace(
        WAITS, rule_id="idle_tail", verdict=Verdict("insufficient_data", "Missing: X.")
    )
    missing = Input("fit", "memory in use", "Sample it.")
    lines = checked_lines([PASSED, unknown, finding("hung", 1, 2)], [missing])
    assert [(line.name, line.is_known) for line in lines] == [
        ("Training waits for data", True),
        ("Idle machines after the work", False),
        ("Machine size", False),
    ]
    assert lines[0].found == "It did not wait."
    assert lines[2].found == "Not judged: memory in use. Sample it."
    assert conclusion(lines, [missing]) == (
        "No finding of this run costs enough to act on, as far as 1 of 2 rules had data. "
        "Whether another machine pays is not judged: memory in use. Sample it."
    )
    sized = checked_lines([PASSED], [])
    assert sized[-1].is_known
    assert "No machine" in sized[-1].found
    assert conclusion(sized, [Input("fit", "measured")]).endswith("no other machine pays.")


def test_without_a_price_the_cause_that_takes_most_time_comes_first() -> None:
    found = [finding("startup_breakdown", 10, 20), finding("checkpoint_stalls", 300, 400)]
    for judgements in (found, found[::-1]):
        ordered = list(advise(judgements, cost_usd=None, demand=None))
        assert ordered == [KINDS["checkpoint_stalls"].kind, KINDS["startup_breakdown"].kind]
    quick = [finding("startup_breakdown", 300, 400), finding("checkpoint_stalls", 10, 20)]
    assert next(iter(advise(quick, cost_usd=None, demand=None))) == "shorten_start_up"


def test_nothing_to_change_is_not_said_beside_large_waste() -> None:
    lines, inputs = checked_lines([PASSED], []), [Input("fit", "measured")]
    said = conclusion(lines, inputs, waste="98 % was waste")
    assert said == (
        "No finding of this run costs enough to act on, though 98 % was waste. "
        "No other machine pays."
    )


def test_a_finding_without_advice_is_not_said_to_cost_too_little() -> None:
    found = findings_of([PASSED, finding("low_gpu_utilization", 10, 90), finding("hung", 1, 2)])
    said = conclusion(checked_lines([PASSED], []), [Input("fit", "measured")], found)
    assert said == (
        'This run gives no advice on "Low GPU utilisation" and "Hung run" beyond what the finding '
        "says. No other machine pays."
    )


def test_spot_is_offered_where_it_is_allowed_and_interruptions_leave_a_saving() -> None:
    assert "buy_spot" not in advise()
    saves = finding("checkpoint_interval", 0, 0, checkpoint_seconds=20)
    spot = advise([saves], may_buy=BUYS_SPOT)["buy_spot"]
    assert spot.change == {"purchase_option": "spot"}
    assert Decimal(0) < (spot.saving_low_usd or 0) < (spot.saving_high_usd or 0) < COST
    assert "of 100 such runs are interrupted" in spot.risk_reason
    days = replace(JOB, duration_seconds=3600 * 100)
    assert "buy_spot" not in advise(demand=days, cost_usd=COST * 100, may_buy=BUYS_SPOT)
    long = advise([saves], days, COST * 100, may_buy=BUYS_SPOT)["buy_spot"]
    assert long.risk > spot.risk


def test_ec2_is_offered_instead_of_sagemaker_where_it_is_allowed() -> None:
    on_sagemaker = replace(JOB, instance_type="ml.g5.xlarge", gpus=1, service="sagemaker_training")
    cost = Decimal("1.4084")
    advised = advise(demand=on_sagemaker, cost_usd=cost, may_buy=BUYS_EC2)["run_on_ec2"]
    assert advised.effort == "high"
    assert advised.saving_usd == pytest.approx(cost - Decimal("1.006"), abs=Decimal("0.0001"))
    assert "run_on_ec2" not in advise(may_buy=BUYS_EC2)


def test_a_larger_expected_saving_comes_first() -> None:
    small, large = finding("evaluation_share", 100, 300), finding("idle_tail", 200, 700)
    for judgements in ([small, large], [large, small]):
        assert list(advise(judgements, None)) == ["end_idle_tail", "shorten_evaluation"]


def test_a_risk_decides_only_between_equal_savings() -> None:
    """Half of the waits come back, whatever the cores do; the start-up's fix is less of a risk."""
    waits, starts = finding("input_bound", 200, 700), finding("startup_breakdown", 200, 690)
    even = finding("startup_breakdown", 200, 700)
    assert list(advise([starts, waits], None)) == ["fix_input_pipeline", "shorten_start_up"]
    assert list(advise([even, waits], None)) == ["shorten_start_up", "fix_input_pipeline"]


def test_what_nobody_has_measured_counts_at_its_low_end() -> None:
    guessed, measured = finding("batch_size", 100, 900), finding("idle_tail", 150, 250)
    advised = advise([guessed, measured], None)
    assert list(advised) == ["end_idle_tail", "raise_batch"]
    batch = advised["raise_batch"]
    assert batch.saving_low_usd
    assert batch.monthly_saving_usd == 3 * batch.saving_low_usd


def test_what_several_save_together_is_counted_once_and_is_never_all_that_was_spent() -> None:
    found = [WAITS, finding("idle_tail", 300, 500), finding("evaluation_share", 100, 200)]
    advised = list(advise(found).values())
    alone = [a.saving_usd or Decimal(0) for a in advised]
    joint = joint_saving_usd(advised, COST)
    assert max(alone) < joint < min(sum(alone), COST)
    assert joint == joint_saving_usd(advised[::-1], COST)
    fixing = [a for a in advised if not a.changes_price]
    together = sum((a.saving_usd or Decimal(0) for a in fixing), Decimal(0))
    assert joint_saving_usd(fixing, COST) == together


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
        verdict=Verdict("fired", "", claims=claim("input_bound", low, low + more)),
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
        assert len(known) in (0, 3)
        assert not known or Decimal(0) <= known[0] <= known[1] <= known[2] <= cost
        assert 0 <= (recommendation.monthly_saving_usd or 0) <= sum(recent)
        assert 0 <= recommendation.risk <= 4


def test_a_machine_that_the_job_ran_on_is_judged_by_what_was_measured_there() -> None:
    [predicted] = _machines(SpeedEvidence())
    chosen = predicted.change["instance_type"]
    assert predicted.rung == SAME
    slow = _machines(SpeedEvidence(machines={chosen: RatioInterval(0.39, 0.4, 0.41)}))
    assert all(each.change["instance_type"] != chosen for each in slow)
    [as_fast] = _machines(SpeedEvidence(machines={chosen: RatioInterval(2.95, 3.0, 3.05)}))
    assert (as_fast.change["instance_type"], as_fast.rung) == (chosen, MEASURED)
    [row] = [row for row in as_fast.candidates if row["instance_type"] == chosen]
    assert row["time_mid_seconds"] == pytest.approx(1200)


def _machines(evidence: SpeedEvidence) -> list[Recommendation]:
    run = AdvisedRun([], JOB, Spending(COST, 3600, (COST,)))
    return recommend(run, Market(BOOK, catalogue(), AS_OF), evidence)
