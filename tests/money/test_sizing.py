"""The machines that could hold a run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trimtab.wire import NodeFacts

from advisor.pricing.book import PriceBook
from advisor.pricing.bundled import bundled_prices
from advisor.pricing.catalogue import GIB, catalogue
from advisor.pricing.price import OWN_RATE, PriceKey, PriceRow
from advisor.sizing.candidates import Candidate, candidates
from advisor.sizing.demand import PRESETS, SAFE, SAVE, Demand, demand_of, missing_for_demand

AS_OF = datetime(2026, 8, 22, tzinfo=UTC)
BOOK = PriceBook(bundled_prices())
SMALL_JOB = Demand(
    cores_busy_p95=1.3,
    memory_p99_bytes=2 * GIB,
    gpus=0,
    duration_seconds=3600,
    instance_type="m5.2xlarge",
    region="us-east-1",
)


@dataclass(frozen=True)
class Used:
    """The use that was measured of a run."""

    starved_share: float | None
    cores_busy_p95: float | None = 1.3
    memory_p99_bytes: float | None = 2.0 * GIB
    disk_bytes_per_second_p95: float | None = None
    network_bytes_per_second_p95: float | None = None


@pytest.mark.parametrize(
    ("starved", "is_judged"), [(None, True), (0.0, True), (0.04, True), (0.05, False)]
)
def test_no_size_is_advised_while_starvation_hides_the_demand(
    starved: float | None, is_judged: bool
) -> None:
    nodes = [NodeFacts(machine_id="m", provider="aws", instance_type="m5.2xlarge", vcpus=8)]
    assert (demand_of(nodes, Used(starved), 3600) is not None) == is_judged
    missing = missing_for_demand(nodes, Used(starved))
    assert bool(missing) != is_judged
    assert is_judged or "it waited for a core in 5 % of the time" in missing[0]


def by_name(demand: Demand, preset: str = "balanced") -> dict[str, Candidate]:
    machines = candidates(demand, BOOK, catalogue(), AS_OF, PRESETS[preset])
    return {candidate.instance_type: candidate for candidate in machines}


def test_it_prices_the_present_machine_at_its_own_time_and_list_price() -> None:
    now = by_name(SMALL_JOB)["m5.2xlarge"]
    assert now.cost_low_usd == now.cost_mid_usd == now.cost_high_usd == Decimal("0.384")
    assert now.time_mid_seconds == 3600
    assert now.rejected_because == ""


def test_it_puts_those_that_fit_first_and_the_cheapest_of_them_first() -> None:
    machines = candidates(SMALL_JOB, BOOK, catalogue(), AS_OF)
    fits = [not candidate.rejected_because for candidate in machines]
    assert fits == sorted(fits, reverse=True)
    costs = [candidate.cost_mid_usd for candidate in machines if not candidate.rejected_because]
    known = [cost for cost in costs if cost is not None]
    assert known == sorted(known)
    assert len(known) == len(costs) > 10


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("m6g.large", "arm64"),
        ("dl1.24xlarge", "GPUs, which the run doesn't use"),
        ("g5.xlarge", "GPUs, which the run doesn't use"),
        ("t3.large", "credits"),
        ("r7a.medium", "1.3 busy of 1"),
        ("m5a.large", "slower"),
        ("p5e.48xlarge", "no price in us-east-1"),
    ],
)
def test_it_says_why_not(name: str, reason: str) -> None:
    assert reason in by_name(SMALL_JOB)[name].rejected_because


def test_it_rejects_too_little_memory_with_headroom() -> None:
    """7.6 of c5.xlarge's 8 GiB are usable: 7.2 fit bare, but not with a tenth above them."""
    tight = replace(SMALL_JOB, memory_p99_bytes=7.2 * GIB)
    assert "memory: needs 7.9 GiB" in by_name(tight)["c5.xlarge"].rejected_because
    assert by_name(tight, "save")["c5.xlarge"].rejected_because == ""


def test_a_safer_preset_never_accepts_what_a_bolder_one_rejects() -> None:
    demand = replace(SMALL_JOB, cores_busy_p95=1.7, memory_p99_bytes=3.4 * GIB)
    accepted = [
        {
            name
            for name, candidate in by_name(demand, preset.name).items()
            if not candidate.rejected_because
        }
        for preset in (SAFE, SAVE)
    ]
    assert accepted[0] < accepted[1]


def test_a_machine_without_a_price_has_no_cost_rather_than_none_at_all() -> None:
    unpriced = by_name(SMALL_JOB)["p5e.48xlarge"]
    assert (unpriced.usd_per_hour, unpriced.cost_mid_usd) == (None, None)
    assert unpriced.to_document()["cost_mid_usd"] is None


def test_a_price_that_was_not_confirmed_for_long_is_the_list_price_of_its_date() -> None:
    later = datetime(2026, 11, 1, tzinfo=UTC)
    old = {c.instance_type: c for c in candidates(SMALL_JOB, BOOK, catalogue(), later)}["m5.large"]
    assert old.to_document()["list_price_of"] == "2026-07-20"
    assert by_name(SMALL_JOB)["m5.large"].to_document()["list_price_of"] is None


@pytest.mark.parametrize(
    ("provider", "service", "now", "fits"),
    [
        ("lambda", "machine", "gpu_1x_a10", False),
        ("azure", "virtual_machines", "Standard_NC8as_T4_v3", False),
        ("gcp", "compute_engine", "a2-highgpu-2g", True),
    ],
)
def test_a_machine_whose_cores_are_not_known_is_never_recommended(
    provider: str, service: str, now: str, fits: bool
) -> None:
    job = replace(SMALL_JOB, instance_type=now, gpus=1, region="r", provider=provider)
    fitting = [
        each.instance_type
        for each in by_name(replace(job, service=service)).values()
        if not each.rejected_because and each.instance_type != now
    ]
    assert bool(fitting) is fits


def test_a_machine_with_a_price_and_without_cores_says_why_it_is_not_chosen() -> None:
    unknown = replace(catalogue()["m5.xlarge"], physical_cores=0)
    table = candidates(SMALL_JOB, BOOK, {**catalogue(), "m5.xlarge": unknown}, AS_OF)
    why = {each.instance_type: each.rejected_because for each in table}
    assert why["m5.xlarge"] == "its physical cores aren't known"


def test_it_guesses_no_speed_on_another_gpu_model() -> None:
    job = replace(SMALL_JOB, instance_type="g5.4xlarge", gpus=1)
    machines = by_name(job)
    assert "speed on L4 was not measured" in machines["g6.xlarge"].rejected_because
    assert machines["g5.xlarge"].rejected_because == ""


def test_it_wants_as_many_gpus_as_are_in_use() -> None:
    job = replace(SMALL_JOB, instance_type="g5.48xlarge", gpus=4)
    machines = by_name(job)
    assert "fewer GPUs than the 4" in machines["g5.xlarge"].rejected_because
    assert machines["g5.12xlarge"].rejected_because == ""


def test_it_compares_sagemaker_with_sagemaker_prices_only() -> None:
    job = replace(SMALL_JOB, instance_type="ml.g5.4xlarge", gpus=1, service="sagemaker_training")
    machines = by_name(job)
    assert machines["ml.g5.xlarge"].usd_per_hour == Decimal("1.4084")
    assert all(name.startswith("ml.") for name in machines)


def test_an_own_rate_goes_before_the_list_price() -> None:
    key = PriceKey("aws", "ec2", "us-east-1", "c5.large")
    own = PriceRow(key, Decimal("0.01"), datetime(2026, 1, 1, tzinfo=UTC), None, "own", OWN_RATE)
    best = candidates(SMALL_JOB, PriceBook([*bundled_prices(), own]), catalogue(), AS_OF)[0]
    assert (best.instance_type, best.usd_per_hour) == ("c5.large", Decimal("0.01"))


def test_from_an_unknown_machine_there_is_nothing_to_scale() -> None:
    assert candidates(replace(SMALL_JOB, instance_type="x"), BOOK, catalogue(), AS_OF) == []


@given(
    cores=st.floats(0.01, 64),
    gib=st.floats(0.1, 500),
    seconds=st.floats(1, 1e6),
    name=st.sampled_from(["m5.large", "c5.9xlarge", "g5.12xlarge", "t3.medium"]),
    nodes=st.integers(1, 16),
)
def test_its_intervals_are_in_order_and_cost_is_price_times_time(
    cores: float, gib: float, seconds: float, name: str, nodes: int
) -> None:
    demand = Demand(cores, gib * GIB, 0, seconds, name, "us-east-1", node_count=nodes)
    for candidate in candidates(demand, BOOK, catalogue(), AS_OF)[:40]:
        assert (
            candidate.time_low_seconds <= candidate.time_mid_seconds <= candidate.time_high_seconds
        )
        if candidate.usd_per_hour is not None and candidate.cost_mid_usd is not None:
            hours = float(candidate.cost_mid_usd / (candidate.usd_per_hour * candidate.node_count))
            assert hours * 3600 == pytest.approx(candidate.time_mid_seconds, rel=1e-4, abs=1e-3)


@given(cores=st.floats(0.1, 16), more=st.floats(1, 4))
def test_more_demand_never_makes_a_machine_faster(cores: float, more: float) -> None:
    little = by_name(replace(SMALL_JOB, cores_busy_p95=cores))
    much = by_name(replace(SMALL_JOB, cores_busy_p95=cores * more))
    for name in ("m5.large", "c5.xlarge", "r5.2xlarge"):
        assert much[name].time_mid_seconds >= little[name].time_mid_seconds
        assert much[name].time_high_seconds >= little[name].time_high_seconds
