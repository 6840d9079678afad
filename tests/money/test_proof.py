"""The proof of recommendations: who followed, what was saved, and how certain that is."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.advice.recommendation import Recommendation
from advisor.comparison.job_metrics import MetricSetting
from advisor.proof.baseline import PricedTime
from advisor.proof.calibration import Pair, score, widen_interval, widening
from advisor.proof.proving import FAILED, UNVERIFIABLE, VERIFIED, Proof, prove
from advisor.proof.runs import CandidateTable, CompleteRun, Promise, PromisedSaving
from advisor.proof.saving import running
from advisor.proof.splitting import SplitChange, split
from advisor.successive.machine_time import MachineWork

BEGAN = datetime(2026, 1, 5, tzinfo=UTC)
LARGE, SMALL = "c5.4xlarge", "c5.2xlarge"
USD_PER_HOUR = {LARGE: Decimal("0.68"), SMALL: Decimal("0.34")}
TABLE = [
    {"instance_type": SMALL, "node_count": 1, "purchase_option": "on_demand"},
    {"instance_type": LARGE, "node_count": 1, "purchase_option": "on_demand"},
]


def a_run(
    number: int,
    *,
    samples: float = 10_000,
    ms_per_sample: float = 36.0,
    machine: str = LARGE,
    start_up: float = 60.0,
    loader: str = "fired",
    usd_per_hour: Decimal | None = None,
    **more: Any,
) -> CompleteRun:
    loop = samples * ms_per_sample / 1000
    seconds, price = loop + start_up, usd_per_hour or USD_PER_HOUR[machine]
    configuration = {"instance_type": machine, "node_count": 1, "purchase_option": "on_demand"}
    values: dict[str, Any] = {
        "number": number,
        "at": BEGAN + timedelta(days=number),
        "workload_key": "work",
        "configuration_key": machine,
        "configuration": configuration,
        "worked": MachineWork(
            seconds, seconds, {"samples": samples}, {"initialise": start_up, "train": loop}
        ),
        "cost_usd": price * Decimal(str(seconds)) / 3600,
        "usd_per_hour": price,
        "rules": {"input_bound": loader},
    }
    return CompleteRun(**values | more)


def to_smaller(of: CompleteRun, saving: str = "0.03", **more: Any) -> Promise:
    middle = Decimal(saving)
    tables = [CandidateTable(of.cost_usd, TABLE)]
    return _promise(of, "machine", middle, change={"instance_type": SMALL}, tables=tables, **more)


def to_faster_loading(of: CompleteRun, saving: str = "0.03", **more: Any) -> Promise:
    return _promise(of, "loader", Decimal(saving), rules=["input_bound"], **more)


def _promise(of: CompleteRun, key: str, saving: Decimal, **more: Any) -> Promise:
    values: dict[str, Any] = {
        "key": key,
        "number": of.number,
        "at": of.at,
        "workload_key": of.workload_key,
        "configuration": of.configuration,
        "change": {},
        "tables": [],
        "rules": [],
        "estimate": PromisedSaving(
            saving * Decimal("0.8"),
            saving,
            saving * Decimal("1.2"),
            of.cost_usd,
            of.worked.duration_seconds,
        ),
    }
    return Promise(**values | more)


def saved(proof: Proof) -> float:
    assert proof.realised is not None
    return float(proof.realised.usd)


def test_a_run_on_a_machine_of_the_table_claims_and_verifies() -> None:
    runs = [a_run(1), a_run(2), a_run(3, machine=SMALL)]
    proof = prove([to_smaller(runs[1])], runs)["machine"]
    assert (proof.state, proof.claimed_by, proof.proven_by) == (VERIFIED, 3, 3)
    assert proof.candidate == TABLE[0]
    assert saved(proof) == pytest.approx(420 / 3600 * 0.34)


@pytest.mark.parametrize(("other", "usd_per_hour"), [("m5.large", "0.70"), (LARGE, "0.1")])
def test_a_dearer_machine_outside_of_the_table_or_the_same_one_claims_nothing(
    other: str, usd_per_hour: str
) -> None:
    later = a_run(2, usd_per_hour=Decimal(usd_per_hour))
    later = replace(later, configuration={**later.configuration, "instance_type": other})
    assert prove([to_smaller(a_run(1))], [a_run(1), later]) == {}


def test_what_one_of_two_rules_cannot_tell_claims_nothing() -> None:
    promise = replace(to_faster_loading(a_run(1)), rules=["input_bound", "dataloader"])
    states = {"input_bound": "passed", "dataloader": "insufficient_data"}
    assert prove([promise], [a_run(1), a_run(2, rules=states)]) == {}
    states["dataloader"] = "passed"
    assert prove([promise], [a_run(1), a_run(2, rules=states)])


def test_only_later_runs_of_the_same_work_claim() -> None:
    early, elsewhere = a_run(1, machine=SMALL), a_run(3, machine=SMALL, workload_key="other")
    runs = [early, a_run(2), elsewhere]
    assert prove([to_smaller(runs[1])], runs) == {}


@given(weeks=st.lists(st.floats(0.5, 5.0), min_size=2, max_size=12))
def test_unlike_weeks_are_compared_for_the_same_work(weeks: list[float]) -> None:
    """Twice the data takes twice the time: that is neither a loss nor a saving."""
    before = [a_run(n + 1, samples=10_000 * size) for n, size in enumerate(weeks)]
    after = [
        a_run(len(weeks) + n + 1, samples=10_000 * size, ms_per_sample=18, loader="passed")
        for n, size in enumerate(reversed(weeks))
    ]
    proof = prove([to_faster_loading(before[-1])], before + after)["loader"]
    truth = sum(10_000 * size * 0.018 / 3600 * 0.68 for size in weeks)
    assert saved(proof) == pytest.approx(truth, rel=1e-6)


def test_a_cheaper_month_is_no_saving() -> None:
    """The price of the machine before is that of the day of the later run."""
    runs = [
        a_run(1),
        a_run(2, usd_per_hour=Decimal("0.34"), loader="passed", ms_per_sample=18),
        a_run(3, machine=SMALL, usd_per_hour=Decimal("0.17")),
    ]
    fixed = prove([to_faster_loading(runs[0])], runs[:2])["loader"]
    assert saved(fixed) == pytest.approx(180 / 3600 * 0.34)
    halved = prove(
        [to_smaller(runs[0])], [runs[0], runs[2]], lambda run, at: USD_PER_HOUR[LARGE] / 2
    )
    assert saved(halved["machine"]) == pytest.approx(420 / 3600 * 0.17)


def test_two_changes_at_once_are_split_and_sum_to_what_was_saved() -> None:
    runs = [a_run(1), a_run(2, machine=SMALL, ms_per_sample=18, loader="passed")]
    proofs = prove([to_faster_loading(runs[0]), to_smaller(runs[0])], runs)
    whole = 420 / 3600 * 0.68 - 240 / 3600 * 0.34
    assert saved(proofs["loader"]) + saved(proofs["machine"]) == pytest.approx(whole)
    assert saved(proofs["loader"]) > 0 < saved(proofs["machine"])


@pytest.mark.parametrize("node_count", [1, 2])
def test_a_machine_that_nobody_recommended_is_no_saving_of_a_fix(node_count: int) -> None:
    """The loader saved 180 s, at the old price or the new one; the rest is the machine's."""
    moved = a_run(2, machine=SMALL, ms_per_sample=18, loader="passed")
    moved = replace(moved, configuration={**moved.configuration, "node_count": node_count})
    proof = prove([to_faster_loading(a_run(1))], [a_run(1), moved])["loader"]
    assert 180 / 3600 * 0.34 <= saved(proof) <= 180 / 3600 * 0.68
    alone = [a_run(1), a_run(2, ms_per_sample=18, loader="passed")]
    assert saved(prove([to_faster_loading(alone[0])], alone)["loader"]) == pytest.approx(
        180 / 3600 * 0.68
    )


def test_one_change_after_the_other_is_never_counted_twice() -> None:
    runs = [
        *(a_run(n) for n in (1, 2)),
        *(a_run(n, machine=SMALL) for n in (3, 4)),
        *(a_run(n, machine=SMALL, ms_per_sample=18, loader="passed") for n in (5, 6)),
    ]
    proofs = prove([to_smaller(runs[1]), to_faster_loading(runs[3])], runs)
    first = 420 / 3600 * 0.34
    assert saved(proofs["machine"]) == pytest.approx(4 * first)
    assert saved(proofs["loader"]) == pytest.approx(2 * 180 / 3600 * 0.34)
    whole = 4 * 420 * 0.68 / 3600 - sum(float(run.cost_usd or 0) for run in runs[2:])
    assert saved(proofs["machine"]) + saved(proofs["loader"]) == pytest.approx(whole)


def test_a_change_that_is_taken_back_saves_no_more() -> None:
    runs = [a_run(1), a_run(2, loader="passed", ms_per_sample=18), a_run(3)]
    proof = prove([to_faster_loading(runs[0])], runs)["loader"]
    assert [each.number for each in proof.savings] == [2]


def test_advice_that_costs_more_has_failed_and_counts_as_a_loss() -> None:
    runs = [a_run(1), *(a_run(n, machine=SMALL, ms_per_sample=90) for n in (2, 3))]
    proof = prove([to_smaller(runs[0])], runs)["machine"]
    assert proof.state == FAILED
    assert saved(proof) == pytest.approx(2 * (420 * 0.68 - 960 * 0.34) / 3600)
    assert saved(proof) < 0


def test_a_saving_within_the_noise_isnt_certain_until_more_runs_show_it() -> None:
    noise = random.Random(7)

    def noisy(number: int, ms: float, loader: str) -> CompleteRun:
        return a_run(number, ms_per_sample=ms * math.exp(noise.gauss(0, 0.03)), loader=loader)

    before = [noisy(n, 36, "fired") for n in range(1, 21)]
    after = [noisy(n, 34.2, "passed") for n in range(21, 41)]
    promise = to_faster_loading(before[-1])
    states = [prove([promise], before + after[:n])["loader"].state for n in (1, 20)]
    assert states == ["claimed", VERIFIED]


def test_a_fix_without_effect_fails_in_time() -> None:
    runs = [a_run(1), *(a_run(n, loader="passed", ms_per_sample=36.1) for n in range(2, 8))]
    assert prove([to_faster_loading(runs[0])], runs[:4])["loader"].state == "claimed"
    assert prove([to_faster_loading(runs[0])], runs)["loader"].state == FAILED


@pytest.mark.parametrize(
    ("changes", "missing"),
    [
        ({"cost_usd": None}, "price"),
        ({"worked": MachineWork(240.0, 240.0, {"epochs": 3.0}, {})}, "work"),
        ({"worked": MachineWork(1.0, 1.0, {"samples": 20.0}, {})}, "tenth"),
    ],
)
def test_what_cant_be_verified_says_what_is_missing(changes: dict[str, Any], missing: str) -> None:
    later = replace(a_run(2, machine=SMALL), **changes)
    proof = prove([to_smaller(a_run(1))], [a_run(1), later])["machine"]
    assert (proof.state, proof.realised) == (UNVERIFIABLE, None)
    assert missing in proof.missing[0]
    assert "#2" in proof.missing[0]


def test_savings_are_counted_for_a_year() -> None:
    runs = [a_run(1), *(a_run(n, machine=SMALL) for n in (2, 300, 366, 368, 500))]
    proof = prove([to_smaller(runs[0])], runs)["machine"]
    assert [each.number for each in proof.savings] == [2, 300, 366]


def test_a_person_may_say_from_when_on_it_is_followed() -> None:
    runs = [a_run(n, ms_per_sample=36 if n < 3 else 18) for n in range(1, 5)]
    since = to_faster_loading(runs[0], followed_since=runs[2].at)
    proof = prove([since], runs)["loader"]
    assert (proof.claimed_by, proof.state) == (3, VERIFIED)


@given(order=st.permutations(range(6)), swap=st.booleans())
def test_neither_the_order_of_runs_nor_of_promises_nor_other_jobs_matter(
    order: list[int], swap: bool
) -> None:
    runs = [a_run(n) for n in (1, 2, 3)] + [
        a_run(n, machine=SMALL, ms_per_sample=18, loader="passed") for n in (4, 5)
    ]
    runs.append(a_run(6, workload_key="other", ms_per_sample=400))
    promises = [to_smaller(runs[2]), to_faster_loading(runs[2])]
    straight = prove(promises, runs)
    assert prove(promises[::-1] if swap else promises, [runs[at] for at in order]) == straight


@given(
    seconds=st.tuples(st.floats(1, 1e6), st.floats(1, 1e6)),
    rates=st.tuples(st.decimals("1e-6", "1", places=8), st.decimals("1e-6", "1", places=8)),
    ratios=st.lists(st.floats(0.05, 3.0), min_size=2, max_size=4),
    machine=st.integers(0, 4),
)
def test_the_parts_of_a_split_sum_to_the_whole(
    seconds: tuple[float, float],
    rates: tuple[Decimal, Decimal],
    ratios: list[float],
    machine: int,
) -> None:
    before, after = (PricedTime(s, 1, r) for s, r in zip(seconds, rates, strict=True))
    parts = [SplitChange(at == machine, ratio) for at, ratio in enumerate(ratios)]
    assert sum(split(parts, before, after)) == before.usd - after.usd


def test_the_cumulative_sum_of_a_steady_saving_is_a_straight_line() -> None:
    runs = [a_run(1), *(a_run(n, machine=SMALL) for n in range(2, 8))]
    sums = [
        float(each.usd) for each in running(prove([to_smaller(runs[0])], runs)["machine"].savings)
    ]
    assert sums == pytest.approx([n * sums[0] for n in range(1, 7)])


def _pair(realised: str) -> Pair:
    return Pair(Decimal(8), Decimal(10), Decimal(12), Decimal(realised), Decimal(40))


def test_estimates_that_held_widen_nothing_and_misses_widen_more_the_more_there_are() -> None:
    assert widening([]) == widening([_pair("10")] * 30) == 1.0
    few, many = widening([_pair("2")] * 2), widening([_pair("2")] * 30)
    assert 1.0 < few < many <= 4.0
    assert score([_pair("10"), _pair("6")]) == pytest.approx(0.8)
    assert score([]) is None


@given(seed=st.integers(0, 2**32), factor=st.floats(1.5, 3.0))
def test_the_widening_finds_by_how_much_intervals_were_too_narrow(seed: int, factor: float) -> None:
    noise = random.Random(seed)
    pairs = [_pair(f"{10 + factor * noise.gauss(0, 2 / 1.645):.6f}") for _ in range(400)]
    assert widening(pairs) == pytest.approx(factor, rel=0.25)


@given(factor=st.floats(1.0, 4.0), low=st.integers(0, 10), high=st.integers(10, 40))
def test_a_wider_interval_stays_within_what_was_spent(factor: float, low: int, high: int) -> None:
    advice = Recommendation(
        kind="machine",
        title="",
        change={},
        saving_low_usd=Decimal(low),
        saving_usd=Decimal(10),
        saving_high_usd=Decimal(high),
        monthly_saving_usd=None,
        risk=0,
        risk_dimension="",
        effort="low",
        evidence=[],
        assumptions=[],
        candidates=[],
        dedupe_key="machine",
    )
    wider = widen_interval(advice, factor, Decimal(40))
    assert wider.saving_usd == 10
    assert wider.saving_low_usd is not None
    assert wider.saving_high_usd is not None
    assert 0 <= wider.saving_low_usd <= low
    assert high <= wider.saving_high_usd <= 40


def test_a_cheaper_run_with_worse_results_proves_nothing() -> None:
    before = [a_run(n, results={"val/auroc": 0.95}) for n in (1, 2)]
    cheaper = {"machine": SMALL, "results": {"val/auroc": 0.60}}
    proof = prove([to_smaller(before[1])], [*before, a_run(3, **cheaper), a_run(4, **cheaper)])[
        "machine"
    ]
    assert proof.state == UNVERIFIABLE
    assert "its results are worse: val/auroc was 0.6 instead of 0.95" in proof.missing[0]
    good = [a_run(n, machine=SMALL, results={"val/auroc": 0.95}) for n in (5, 6, 7)]
    mixed = prove([to_smaller(before[1])], [*before, a_run(3, **cheaper), *good])["machine"]
    assert [saving.number for saving in mixed.savings] == [5, 6, 7]
    assert mixed.state == VERIFIED


def test_results_in_a_direction_that_is_unknown_count_once_a_person_sets_it() -> None:
    before = [a_run(n, results={"gamma": 1.0}) for n in (1, 2)]
    runs = [*before, *(a_run(n, machine=SMALL, results={"gamma": 2.0}) for n in (3, 4, 5))]
    promise = to_smaller(before[1])
    unknown = prove([promise], runs)["machine"]
    assert unknown.savings == ()
    assert "may be worse: gamma was 2 instead of 1" in unknown.missing[0]
    higher = prove([promise], runs, metrics={"gamma": MetricSetting("higher")})["machine"]
    assert higher.state == VERIFIED


def test_results_within_the_noise_of_the_runs_before_count() -> None:
    noisy = (0.90, 0.80, 0.95, 0.78, 0.88, 0.93)
    before = [a_run(n, results={"accuracy": value}) for n, value in enumerate(noisy, 1)]
    runs = [*before, *(a_run(n, machine=SMALL, results={"accuracy": 0.8}) for n in (7, 8))]
    assert prove([to_smaller(before[-1])], runs)["machine"].state == VERIFIED


@pytest.mark.parametrize("setting", ["purchase_option", "region", "service"])
def test_a_run_that_is_bought_as_advised_claims_and_one_that_is_not_ends_it(setting: str) -> None:
    """The run is on the same machine, at half the price."""
    before, after = {"purchase_option": "on_demand"}, {"purchase_option": "spot"}
    if setting != "purchase_option":
        before, after = {setting: "here"}, {setting: "there"}
    runs = [a_run(number) for number in range(1, 6)]
    moved = [
        replace(run, configuration=run.configuration | (after if run.number in (3, 4) else before))
        for run in runs
    ]
    half = [
        replace(run, cost_usd=(run.cost_usd or 0) / 2, usd_per_hour=Decimal("0.34"))
        if run.number in (3, 4)
        else run
        for run in moved
    ]
    promise = _promise(half[1], "bought", Decimal("0.03"), change=after)
    prices = {1: Decimal("0.68"), 2: Decimal("0.68")}
    proof = prove([promise], half, lambda run, at: prices.get(run.number))["bought"]
    assert (proof.state, proof.claimed_by) == (VERIFIED, 3)
    assert [each.number for each in proof.savings] == [3, 4]
    assert saved(proof) == pytest.approx(2 * float(half[2].cost_usd or 0))


def test_a_fix_that_comes_with_another_region_gets_none_of_what_the_price_saved() -> None:
    runs = [a_run(1), a_run(2), a_run(3, ms_per_sample=27.0, loader="passed")]
    places = ["here", "here", "there"]
    runs = [
        replace(run, configuration=run.configuration | {"region": place})
        for run, place in zip(runs, places, strict=True)
    ]
    runs[2] = replace(runs[2], cost_usd=(runs[2].cost_usd or 0) / 2, usd_per_hour=Decimal("0.34"))
    region = _promise(runs[1], "region", Decimal("0.03"), change={"region": "there"})
    proofs = prove([region, to_faster_loading(runs[1])], runs, lambda run, at: Decimal("0.68"))
    assert proofs["region"].claimed_by == proofs["loader"].claimed_by == 3
    together = float(runs[1].cost_usd or 0) - float(runs[2].cost_usd or 0)
    assert saved(proofs["region"]) + saved(proofs["loader"]) == pytest.approx(together)
    assert saved(proofs["region"]) > saved(proofs["loader"]) > 0
