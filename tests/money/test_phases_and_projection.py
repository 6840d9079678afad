"""Cost by phase, at the end of a run, and until a metric is reached."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.costing.metric_cost import (
    MOST_POINTS,
    Trained,
    improvements,
    metric_costs,
)
from advisor.costing.phases import usd_by_phase
from advisor.costing.projection import projection

nano_usd = st.integers(0, 10**15).map(lambda n: Decimal(n).scaleb(-9))
lengths = st.floats(0, 10**6)


@given(nano_usd, st.dictionaries(st.sampled_from("abcde"), lengths), lengths)
def test_phases_sum_to_the_cost_exactly_and_none_is_below_nothing(total, phases, duration):
    parts = usd_by_phase(total, phases, duration)
    assert not parts or sum(parts.values()) == total
    assert all(usd >= 0 and usd == usd.quantize(Decimal("1e-9")) for usd in parts.values())


def test_the_published_run_spent_more_than_half_outside_of_training():
    """45 % of the wall time was the training loop."""
    parts = usd_by_phase(Decimal("6.15672"), {"initialise": 180.0, "train": 226.0}, 503.0)
    assert {name: str(round(usd, 2)) for name, usd in parts.items()} == {
        "initialise": "2.20", "train": "2.77", "other": "1.19",
    }  # fmt: skip


def test_a_run_that_says_how_many_steps_it_will_do_says_what_it_will_cost():
    projected = projection(Decimal("2"), 1100.0, 1000.0, {"steps": 250.0}, {"max_steps": "1000"})
    assert projected is not None
    assert (projected.done, projected.planned, projected.seconds_left) == (250, 1000, 3000)
    assert projected.low_usd == projected.usd == projected.high_usd == Decimal("7.454545455")


def test_epochs_are_known_to_one_so_the_cost_is_an_interval():
    projected = projection(Decimal("1"), 1000.0, 1000.0, {"epochs": 5.0}, {"--num-epochs": 10})
    assert projected is not None
    assert projected.low_usd == Decimal("2")
    assert projected.high_usd == Decimal("2.5")
    assert projected.low_usd < projected.usd < projected.high_usd
    assert projected.is_interval
    assert str(projected.high_usd) == "2.500000000"


@pytest.mark.parametrize(
    ("work", "parameters"),
    [
        ({}, {"epochs": 10}),
        ({"epochs": 5.0}, {}),
        ({"epochs": 1.0}, {"epochs": 10}),
        ({"steps": 10.0}, {"max_steps": 10}),
        ({"steps": 10.0}, {"max_steps": -1}),
        ({"steps": 10.0}, {"max_steps": "auto"}),
        ({"steps": 10.0}, {"max_steps": float("nan")}),
    ],
)
def test_it_projects_nothing_where_nothing_is_known_or_left(work, parameters):
    assert projection(Decimal("1"), 100.0, 90.0, work, parameters) is None


def trained(*points: tuple[float, float], usd: str = "10", name: str = "val_loss") -> Trained:
    return Trained({name: improvements(name, points)}, Decimal(usd), 100.0)


def test_the_cost_until_the_best_value_that_both_runs_reached():
    a = trained((10, 0.9), (40, 0.5), (50, 0.6), (90, 0.4))
    b = trained((10, 0.8), (20, 0.5), (80, 0.45), usd="20")
    (cost,) = metric_costs(a, b)
    assert (cost.goal, cost.a_seconds, cost.b_seconds) == ("val_loss ≤ 0.45", 90, 80)
    assert (cost.a_usd, cost.b_usd) == (Decimal("9"), Decimal("16"))


def test_more_is_better_for_an_accuracy_and_a_name_that_tells_nothing_is_left_out():
    a = Trained({"top1": improvements("top1", [(1, 0.3), (2, 0.7)]), "lr": [[0, 1]]}, None, 9.0)
    b = Trained({"top1": improvements("top1", [(1, 0.1), (5, 0.6)]), "lr": [[0, 1]]}, None, 9.0)
    (cost,) = metric_costs(a, b)
    assert (cost.goal, cost.a_seconds, cost.b_seconds) == ("top1 ≥ 0.6", 2, 5)
    assert (cost.a_usd, cost.b_usd) == (None, None)


finite = st.floats(-1e6, 1e6)


@given(st.lists(st.tuples(st.floats(0, 1e6), finite), max_size=300))
def test_progress_is_short_only_ever_better_and_keeps_the_best(points):
    kept = improvements("loss", points)
    assert len(kept) <= MOST_POINTS
    assert [value for _, value in kept] == sorted({value for _, value in kept}, reverse=True)
    assert not points or kept[-1][1] == min(value for _, value in points)
