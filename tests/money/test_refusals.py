"""Costs that are not compared, with the field that differs, and start-up told apart."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.comparison.compare import RunFacts, compare

TEN = RunFacts(
    number=1,
    job="digits",
    state="finished",
    instance_types=("g5.xlarge",),
    node_count=1,
    usd_per_hour=Decimal("1"),
    duration_seconds=1120.0,
    cost_usd=Decimal("0.311111111"),
    work={"samples": 500_000.0, "epochs": 10.0},
    workload={"dataset": "imagenet"},
    phase_seconds={"initialise": 100.0, "train": 1000.0, "finalise": 20.0},
)
ONE = replace(
    TEN,
    number=2,
    duration_seconds=220.0,
    cost_usd=Decimal("0.061111111"),
    work={"samples": 50_000.0, "epochs": 1.0},
    phase_seconds={"initialise": 100.0, "train": 100.0, "finalise": 20.0},
)


def change_pct(a: RunFacts, b: RunFacts) -> float:
    change = compare(a, b).cost_change_pct
    assert change is not None
    return float(change)


def test_one_epoch_instead_of_ten_costs_the_same_per_sample():
    comparison = compare(TEN, ONE)
    assert change_pct(TEN, ONE) == pytest.approx(0, abs=1e-4)
    assert comparison.saving_usd is None
    rows = {row.name: row for row in comparison.metrics}
    assert (rows["cost per sample"].change, rows["cost per sample"].tone) == ("", "neutral")
    assert rows["cost per sample, without start-up"].change == "0.0 %"


@given(
    start=st.floats(0, 1e4),
    each=st.floats(0.01, 10),
    slower=st.floats(0.2, 5),
    units=st.tuples(st.integers(1, 1000), st.integers(1, 1000)),
)
def test_the_same_code_costs_the_same_per_unit_whatever_its_start_up(start, each, slower, units):
    def run(number, seconds_each, count):
        train = seconds_each * count
        whole = start + train
        phases = {"initialise": start, "train": train, "finalise": 0.0}
        cost = Decimal(repr(whole)) / 3600
        work = {"steps": float(count)}
        return replace(TEN, number=number, duration_seconds=whole, cost_usd=cost, work=work,
                       phase_seconds=phases)  # fmt: skip

    a, b = run(1, each, units[0]), run(2, each * slower, units[1])
    if abs(units[0] - units[1]) > 0.001 * max(units):
        assert math.isclose(change_pct(a, b), 100 * (slower - 1), rel_tol=1e-6, abs_tol=1e-3)


def test_start_up_is_part_of_the_cost_of_the_same_work():
    longer = replace(TEN, number=2, cost_usd=Decimal("0.4"), duration_seconds=1440.0)
    assert change_pct(TEN, longer) == pytest.approx(28.57, abs=0.01)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (
            replace(ONE, phase_seconds={}),
            "the samples differ: run #1 did 500,000 and run #2 50,000, and the start-up of run #2 "
            "wasn't measured",
        ),
        (replace(ONE, cost_usd=None), "run #2 has no price"),
        (
            replace(
                ONE, cost_usd=None, figures=SimpleNamespace(missing=["node-1: no price of x9"])
            ),
            "run #2 has no price: node-1: no price of x9",
        ),
        (
            replace(ONE, workload={"dataset": "cifar"}),
            "the dataset differs: run #1 has imagenet and run #2 has cifar",
        ),
        (replace(ONE, job="letters"), "the job differs: run #1 has digits and run #2 has letters"),
        (
            replace(ONE, work={"samples": 100_000.0, "epochs": 1.0}),
            "run #2 has twice the samples an epoch (100,000 instead of 50,000 in run #1)",
        ),
        (
            replace(TEN, number=2, work={"samples": 500_000.0, "epochs": 20.0}),
            "run #2 has half the samples an epoch (25,000 instead of 50,000 in run #1)",
        ),
        (
            replace(ONE, state="running", incomplete_because=("node-2 hasn't reported its end",)),
            "run #2 is still running: node-2 hasn't reported its end",
        ),
        (
            replace(TEN, number=2, incomplete_because=("its analysis isn't final yet",)),
            "run #2 is partial: its analysis isn't final yet",
        ),
        (replace(ONE, state="failed"), "run #2 failed"),
    ],
)
def test_a_refusal_names_the_field_of_the_run(other, reason):
    for comparison in (compare(TEN, other), compare(other, TEN)):
        assert comparison.cost_change_pct is None
        assert comparison.saving_usd is None
        assert "are not compared" in comparison.sentence or "no saving" in comparison.sentence
    assert compare(TEN, other).incomparable_because == (reason,)


def test_epochs_that_dropped_a_different_rest_are_the_same_data():
    other = replace(ONE, work={"samples": 49_152.0, "epochs": 1.0})
    assert compare(TEN, other).incomparable_because == ()


def test_nothing_partial_is_explained_as_if_it_were_whole():
    partial = replace(TEN, number=2, incomplete_because=("node-2 hasn't reported its end",))
    comparison = compare(TEN, partial)
    assert comparison.attribution is None
    assert comparison.sentence.startswith("Run #2 is partial: node-2 hasn't reported its end, so")
    assert {row.tone for row in comparison.metrics} == {"neutral"}


def test_a_price_that_changed_on_the_same_machine_is_said():
    dearer = replace(TEN, number=2, usd_per_hour=Decimal("1.2"))
    words = "An hour of the same machine cost $1 in run #1 and $1.2 in run #2."
    assert any(words in warning for warning in compare(TEN, dearer).warnings)
