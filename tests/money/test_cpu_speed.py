"""The predicted speed of other cores."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.pricing.catalogue import GIB, catalogue
from advisor.sizing.cpu import core_speed
from advisor.sizing.demand import Demand
from advisor.sizing.layout import layout
from advisor.sizing.speed import Seconds, predicted_seconds

CATALOGUE = catalogue()
TYPES = sorted(n for n, m in CATALOGUE.items() if m.provider == "aws" and m.physical_cores)


def job(name: str, cores: float = 1.0, gpus: int = 0) -> Demand:
    return Demand(cores, GIB, gpus, 1000, name, "us-east-1")


def seconds(demand: Demand, name: str) -> Seconds:
    now, other = CATALOGUE[demand.instance_type], CATALOGUE[name]
    return predicted_seconds(demand, now, other, layout(demand, other, demand.node_count))


def test_a_newer_generation_is_faster_at_the_same_cores_even_at_the_adverse_end() -> None:
    newer = seconds(job("m5.2xlarge"), "m7i.2xlarge")
    assert newer.high < 1000 < 3 * newer.low
    older = seconds(job("m7i.2xlarge"), "m5.2xlarge")
    assert older.low > 1000


def test_half_the_cores_cost_less_than_twice_the_time_and_at_worst_more() -> None:
    """Throughput grows with the cores to the power 0.5 to 0.8."""
    full = job("c7i.4xlarge", cores=16)
    half = seconds(full, "c7i.2xlarge")
    assert 1400 < half.low < half.mid < 2000 <= half.high


def test_a_faster_core_does_not_speed_up_a_gpu() -> None:
    other = seconds(job("g5.xlarge", gpus=1), "g6.xlarge")
    assert other.low < other.mid == other.high == 1000


@pytest.mark.parametrize(
    ("now", "other"), list(itertools.pairwise(["m5", "c6a", "r7i", "m7a", "m5"]))
)
def test_the_way_back_is_the_inverse(now: str, other: str) -> None:
    machines = CATALOGUE[f"{now}.4xlarge"], CATALOGUE[f"{other}.4xlarge"]
    there, back = core_speed(*machines), core_speed(*reversed(machines))
    assert there.mid * back.mid == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1)


@given(now=st.sampled_from(TYPES), other=st.sampled_from(TYPES), cores=st.floats(0.1, 200))
def test_an_interval_is_in_order_and_includes_its_middle(
    now: str, other: str, cores: float
) -> None:
    predicted = seconds(job(now, cores), other)
    assert 0 < predicted.low <= predicted.mid <= predicted.high
