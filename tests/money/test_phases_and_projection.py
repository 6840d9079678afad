"""Cost by phase, at the end of a run, and until a metric is reached."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.costing.metric_cost import (
    MOST_POINTS,
    BestValue,
    MetricsAndCost,
    best_values,
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


def test_a_phase_of_less_than_a_second_has_its_cost_and_one_without_time_is_left_out():
    parts = usd_by_phase(Decimal(10), {"initialise": 0.0, "train": 0.5}, 2.0)
    assert parts == {"train": Decimal("2.5"), "other": Decimal("7.5")}


@pytest.mark.parametrize(
    ("rest", "phases"), [("0.0010", ["train"]), ("0.0011", ["train", "other"])]
)
def test_a_rest_of_a_millisecond_is_rounding(rest, phases):
    assert list(usd_by_phase(Decimal(10), {"train": 1.0}, 1 + float(rest))) == phases


def test_a_run_that_says_how_many_steps_it_will_do_says_what_it_will_cost():
    projected = projection(Decimal("2"), 1100.0, 1000.0, {"steps": 250.0}, {"max_steps": "1000"})
    assert projected is not None
    assert (projected.done, projected.planned, projected.seconds_left) == (250, 1000, 3000)
    assert projected.usd == Decimal("7.454545455")


def test_a_part_of_an_epoch_is_as_much_of_the_plan():
    projected = projection(Decimal("1"), 1000.0, 1000.0, {"epochs": 4.5}, {"--num-epochs": 10})
    assert projected is not None
    assert (projected.unit, projected.done, projected.planned) == ("epochs", 4.5, 10)
    assert projected.seconds_left == pytest.approx(1000 / 4.5 * 5.5)
    assert str(projected.usd) == "2.222222222"


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        *(("steps", name) for name in ("max_steps", "total_steps", "num_steps")),
        *(("steps", name) for name in ("num_train_steps", "train_steps", "--Max-Steps")),
        *(("epochs", name) for name in ("epochs", "num_epochs", "max_epochs", "n_epochs")),
        *(("epochs", name) for name in ("num_train_epochs", "--epochs")),
    ],
)
def test_it_reads_the_total_from_the_usual_names_of_parameters(unit, name):
    projected = projection(Decimal("1"), 100.0, 90.0, {"steps": 50.0, "epochs": 5.0}, {name: "80"})
    assert projected is not None
    assert (projected.unit, projected.planned) == (unit, 80)


def test_a_total_that_is_not_set_leaves_it_to_the_next_parameter():
    unset = {"max_steps": 0, "total_steps": -1, "num_steps": "inf", "train_steps": 80}
    projected = projection(Decimal("1"), 100.0, 90.0, {"steps": 50.0}, unset)
    assert projected is not None
    assert projected.planned == 80


def test_the_first_step_and_the_first_second_are_enough():
    projected = projection(Decimal("1"), 1.0, 1.0, {"steps": 1.0}, {"max_steps": 4})
    assert projected is not None
    assert (projected.seconds_left, projected.usd) == (3, 4)


@pytest.mark.parametrize(("duration", "train"), [(0.0, 1.0), (1.0, 0.0), (0.0, 0.0)])
def test_it_projects_nothing_without_any_time(duration, train):
    work, parameters = {"steps": 1.0}, {"max_steps": 4}
    assert projection(Decimal("1"), duration, train, work, parameters) is None


@pytest.mark.parametrize(
    ("work", "parameters"),
    [
        ({}, {"epochs": 10}),
        ({}, {"max_steps": 10}),
        ({"epochs": 5.0}, {}),
        ({"epochs": 10.0}, {"epochs": 10}),
        ({"steps": 10.0}, {"max_steps": 10}),
        ({"steps": 10.0}, {"max_steps": 1, "total_steps": 100}),
        ({"steps": 10.0}, {"max_steps": -1}),
        ({"steps": 10.0}, {"max_steps": "auto"}),
        ({"steps": 10.0}, {"max_steps": float("nan")}),
    ],
)
def test_it_projects_nothing_where_nothing_is_known_or_left(work, parameters):
    assert projection(Decimal("1"), 100.0, 90.0, work, parameters) is None


def trained(
    *points: tuple[float, float], usd: str = "10", name: str = "val_loss"
) -> MetricsAndCost:
    return MetricsAndCost({name: improvements(name, points)}, Decimal(usd), 100.0)


def test_the_cost_until_the_best_value_that_both_runs_reached():
    a = trained((10, 0.9), (40, 0.5), (50, 0.6), (90, 0.4))
    b = trained((10, 0.8), (20, 0.5), (80, 0.45), usd="20")
    (cost,) = metric_costs(a, b)
    assert (cost.goal, cost.a_seconds, cost.b_seconds) == ("val_loss ≤ 0.45", 90, 80)
    assert (cost.a_usd, cost.b_usd) == (Decimal("9"), Decimal("16"))


def test_more_is_better_for_an_accuracy_and_a_name_that_tells_nothing_is_left_out():
    a = MetricsAndCost(
        {"top1": improvements("top1", [(1, 0.3), (2, 0.7)]), "lr": [[0, 1]]}, None, 9.0
    )
    b = MetricsAndCost(
        {"top1": improvements("top1", [(1, 0.1), (5, 0.6)]), "lr": [[0, 1]]}, None, 9.0
    )
    (cost,) = metric_costs(a, b)
    assert (cost.goal, cost.a_seconds, cost.b_seconds) == ("top1 ≥ 0.6", 2, 5)
    assert (cost.a_usd, cost.b_usd) == (None, None)


def test_the_first_time_of_a_value_counts_and_values_that_are_no_number_do_not():
    nan, inf = float("nan"), float("inf")
    losses = [(60, 0.5), (10, 0.9), (20, -inf), (30, nan), (40, 0.5), (50, 0.6)]
    assert improvements("val_loss", losses) == [[10, 0.9], [40, 0.5]]
    accuracies = [(10, 0.5), (20, 0.5), (30, inf), (40, 0.7)]
    assert improvements("val_accuracy", accuracies) == [[10, 0.5], [40, 0.7]]
    assert improvements("lr", accuracies) == []


def test_a_hundred_of_many_improvements_are_kept_evenly_with_the_first_and_the_last():
    kept = improvements("val_loss", [(n, -n) for n in range(1000)])
    assert len(kept) == 100
    assert (kept[0], kept[-1]) == ([0, 0], [999, -999])
    assert {after[0] - before[0] for before, after in pairwise(kept)} <= {10, 11}
    assert improvements("val_loss", [(n, -n) for n in range(100)]) == [[n, -n] for n in range(100)]


def test_metrics_that_one_run_never_logged_are_left_out():
    progress = {"a_loss": [[1, 0.5]], "b_loss": [], "c_loss": [[2, 0.5]], "d_loss": [[3, 0.5]]}
    other = {"b_loss": [[1, 0.5]], "c_loss": [], "d_loss": [[5, 0.5]], "e_loss": [[1, 0.5]]}
    a, b = (MetricsAndCost(each, Decimal(10), 10.0) for each in (progress, other))
    (cost,) = metric_costs(a, b)
    assert (cost.name, cost.target, cost.is_less_better) == ("d_loss", 0.5, True)
    assert (cost.a_usd, cost.b_usd) == (3, 5)


def test_the_best_value_of_each_metric_with_its_time_and_the_cost_until_then():
    progress = {"val_loss": [[10, 0.9], [40, 0.5]], "lr": [], "top1": [[120, 0.8]]}
    assert list(best_values(MetricsAndCost(progress, Decimal(10), 100.0))) == [
        # Logged after the end of the run, which is paid in full then.
        BestValue("top1", 0.8, 120, Decimal(10)),
        BestValue("val_loss", 0.5, 40, Decimal(4)),
    ]


@pytest.mark.parametrize(
    ("usd", "duration"), [(None, 100.0), (None, None), (Decimal(10), None), (Decimal(10), 0.0)]
)
def test_without_a_price_or_a_duration_there_is_no_cost_until_a_value(usd, duration):
    (best,) = best_values(MetricsAndCost({"val_loss": [[10, 0.9]]}, usd, duration))
    assert (best.seconds, best.usd) == (10, None)


finite = st.floats(-1e6, 1e6)


@given(st.lists(st.tuples(st.floats(0, 1e6), finite), max_size=300))
def test_progress_is_short_only_ever_better_and_keeps_the_best(points):
    kept = improvements("loss", points)
    assert len(kept) <= MOST_POINTS
    assert [value for _, value in kept] == sorted({value for _, value in kept}, reverse=True)
    assert not points or kept[-1][1] == min(value for _, value in points)
