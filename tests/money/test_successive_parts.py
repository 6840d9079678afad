"""Noise, gradual changes, machines, and what is told beside a verdict: exactly, at their limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.successive import machines
from advisor.successive.beside import Circumstances, describe_changes
from advisor.successive.comparability import IGNORED, TUNING, WORK, Role, differences, roles
from advisor.successive.gradual import gradual_change
from advisor.successive.machine_time import MachineWork, Quantity, quantity
from advisor.successive.machines import MachineEffect, effects, tells
from advisor.successive.noise import Noise, Prior, location, pool_noise

GATE = math.log(1.05)
DAY = datetime(2026, 3, 1, tzinfo=UTC)


# Noise


def test_the_mean_is_hardly_moved_by_single_values_far_off():
    assert location([0.0, 0.0, 0.0, 1.0], 0.02) == pytest.approx(0.05 / 4)
    assert location([0.0, 0.0, 0.0, -1.0], 0.02) == pytest.approx(-0.05 / 4)
    assert location([0.01, 0.03], 0.02) == pytest.approx(0.02)


def test_without_runs_the_noise_is_the_prior():
    assert pool_noise([], Prior(0.03)) == Noise(pytest.approx(0.03), 0, 0.0)
    assert pool_noise([[1.0], [2.0]], Prior(0.03)).spread == pytest.approx(0.03)


values = st.lists(st.floats(-0.2, 0.2), min_size=2, max_size=15)


@given(st.lists(values, min_size=1, max_size=3), st.floats(0.01, 0.05))
def test_the_spread_solves_its_equation(levels, usual):
    """Limited squares of the levels' residuals, and the prior's, by their degrees of freedom."""
    noise = pool_noise(levels, Prior(usual, 24.0))
    residuals = [
        (value - median(level)) * math.sqrt(len(level) / (len(level) - 1))
        for level in levels
        for value in level
    ]
    freedom = sum(len(level) - 1 for level in levels)
    assert noise.freedom == freedom
    limit = (2.5 * noise.spread) ** 2
    squares = sum(min(r * r, limit) for r in residuals) / 0.9775
    weight = 24.0 if squares <= freedom * usual**2 else 24.0 * freedom * usual**2 / squares
    expected = math.sqrt((weight * usual**2 + squares) / (weight + freedom))
    assert noise.spread == pytest.approx(max(expected, 0.004), rel=0.02)


def test_no_history_is_quieter_than_its_clocks():
    assert pool_noise([[1.0] * 60], Prior(0.001)).spread == 0.004


def test_a_long_levels_drift_is_no_noise():
    drifting = [0.01 * n + (0.002 if n % 2 else -0.002) for n in range(30)]
    assert pool_noise([drifting], Prior(0.02)).spread < 0.02
    assert pool_noise([drifting[:15]], Prior(0.02)).spread > 0.03


def test_the_correlation_is_that_of_each_run_with_the_one_before():
    assert pool_noise([[0.02, -0.02] * 7], Prior(0.02)).correlation == 0.0
    waves = [0.02] * 5 + [-0.02] * 5 + [0.02] * 5
    noise = pool_noise([waves], Prior(0.02))
    middle, wide = 0.02, math.sqrt(15 / 14)
    reach = 2.5 * noise.spread
    kept = [min(max((v - middle) * wide, -reach), reach) for v in waves]
    pairs = sum(a * b for a, b in pairwise(kept))
    assert noise.correlation == pytest.approx(
        pairs / (sum(r * r for r in kept) + 16 * noise.spread**2), rel=1e-6
    )
    assert pool_noise([[1.0 * (n // 300) for n in range(600)]], Prior(0.02)).correlation <= 0.9


def test_margins_grow_with_fewer_runs_and_with_correlation():
    assert Noise(0.02, 9).margin(2.0, 4, 1) == pytest.approx(2 * 0.02 * math.sqrt(1.25))
    assert Noise(0.02, 9).lasting == 1.0
    assert Noise(0.02, 9, 0.5).lasting == pytest.approx(math.sqrt(3))


# Gradual changes


def changed(logs: Sequence[float], spread: float = 0.02, days: float = 1.0) -> int | None:
    times = [DAY + timedelta(days=n * days) for n in range(len(logs))]
    return gradual_change(logs, times, Noise(spread, 30), GATE)


def test_a_step_within_a_level_is_found_where_it_begins():
    assert changed([0.0] * 5 + [0.06] * 5, spread=0.01) == 5
    assert changed([0.0] * 12 + [-0.07] * 8) == 12
    assert changed([0.0] * 8 + [0.07] * 12) == 8


def test_a_step_of_less_than_five_percent_or_of_four_runs_is_none():
    assert changed([0.0] * 30 + [0.048] * 30, spread=0.001) is None
    assert changed([0.0] * 30 + [0.049] * 30, spread=0.001) == 30
    assert changed([0.0] * 4 + [0.06] * 5, spread=0.001, days=0.1) is None


def test_a_step_within_the_noise_is_none():
    """The limit of five and five runs is 3.5 times the spread of the difference of their means."""
    least = 3.5 * 0.03 * math.sqrt(2 / 5)
    assert changed([0.0] * 5 + [least * 0.99] * 5, spread=0.03) is None
    assert changed([0.0] * 5 + [least * 1.01] * 5, spread=0.03) == 5


def test_correlated_runs_need_a_larger_step():
    step = [0.0] * 5 + [0.07] * 5
    times = [DAY + timedelta(days=n) for n in range(10)]
    assert gradual_change(step, times, Noise(0.02, 30), GATE) == 5
    assert gradual_change(step, times, Noise(0.02, 30, 0.5), GATE) is None


def test_single_runs_far_off_are_no_step():
    assert changed([0.0] * 12 + [0.9] + [0.0] * 7) is None
    assert changed([0.9, *[0.0] * 12]) is None


def test_the_newest_runs_are_compared_with_those_of_a_month_before():
    """Six runs 40 days ago, six now, and in between a slow rise: the newest are the change."""
    logs = [0.0] * 6 + [0.02, 0.03, 0.04, 0.05] * 3 + [0.075] * 6
    times = [DAY + timedelta(days=d) for d in [*range(6), *range(20, 32), *range(40, 46)]]
    at = gradual_change(logs, times, Noise(0.02, 30), GATE)
    assert at is not None
    assert gradual_change(logs, [DAY] * len(logs), Noise(0.05, 30), GATE) is None
    assert gradual_change([0.0] * 10, [DAY] * 10, Noise(0.02, 30), GATE) is None


# Machines


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], False),
        (["a", "a", "b"], True),
        (["a", "a", "b", "c"], True),
        (["a", "a", "b", "c", "d"], False),
        (["", "", ""], False),
        (["a"], False),
    ],
)
def test_machines_tell_something_where_half_of_the_runs_come_back(names, told):
    assert tells(names) is told


def placed(**logs: Sequence[float]) -> list[tuple[str, float]]:
    return [(name, value) for name, each in logs.items() for value in each]


def test_a_machines_effect_is_its_distance_to_the_others():
    level = placed(a=[0.0, 0.01, -0.01, 0.0], slow=[0.1, 0.1])
    (effect,) = effects([level], Noise(0.01, 30))
    margin = 3 * 0.01 / math.sqrt(2 * 4 / 6)
    assert effect == MachineEffect(
        "slow",
        pytest.approx(math.expm1(0.1)),
        pytest.approx(math.expm1(0.1 - margin)),
        pytest.approx(math.expm1(0.1 + margin)),
        2,
        4,
    )
    assert machines.shifts([effect]) == {"slow": pytest.approx(0.1)}
    (faster,) = effects([placed(a=[0.0] * 4, quick=[-0.1, -0.1])], Noise(0.01, 30))
    assert faster.change == pytest.approx(math.expm1(-0.1))


@pytest.mark.parametrize(
    "level",
    [
        placed(a=[0.0] * 4, slow=[0.1]),
        placed(a=[0.0] * 2, slow=[0.1] * 2),
        placed(a=[0.0] * 4, slow=[0.029] * 4),
        placed(a=[0.0] * 3, slow=[0.1] * 4),
        [("", 0.0)] * 4 + [("", 0.1)] * 2,
    ],
)
def test_it_takes_two_runs_and_three_others_and_three_percent(level):
    assert [e.machine for e in effects([level], Noise(0.005, 30)) if e.machine == "slow"] == []


def test_an_effect_within_the_noise_is_none():
    least = 3 * 0.03 / math.sqrt(2 * 6 / 8)
    assert effects([placed(a=[0.0] * 6, slow=[least * 0.99] * 2)], Noise(0.03, 30)) == []
    assert effects([placed(a=[0.0] * 6, slow=[least * 1.01] * 2)], Noise(0.03, 30)) != []


def test_levels_are_weighed_by_the_runs_that_can_be_compared():
    low = placed(a=[0.0] * 4, slow=[0.1])
    high = placed(a=[0.5] * 4, slow=[0.6 + 0.03, 0.6 + 0.03])
    (effect,) = effects([low, high, placed(a=[0.9] * 9)], Noise(0.01, 30))
    weights = 4 / 5, 8 / 6
    assert math.log1p(effect.change) == pytest.approx(
        (0.1 * weights[0] + 0.13 * weights[1]) / sum(weights)
    )
    assert (effect.runs, effect.other_runs) == (3, 8)


def test_the_strongest_is_taken_off_before_the_others_are_looked_at():
    level = placed(a=[0.0] * 8, slow=[0.2] * 3, slower=[0.4] * 3)
    found = effects([level], Noise(0.01, 30))
    assert [effect.machine for effect in found] == ["slower", "slow"]
    assert math.log1p(found[0].change) == pytest.approx(0.4 - 0.025 * 3 / 11, abs=0.01)
    many = placed(a=[0.0] * 30, **{f"m{n}": [0.2 + n / 10] * 2 for n in range(6)})
    assert len(effects([many], Noise(0.01, 30))) == 4


# Machine time


LOOP = {"initialise": 30.0, "train": 60.0, "finalise": 10.0}


def test_the_loops_share_of_the_machine_time_is_spread_over_the_work():
    run = MachineWork(200.0, 100.0, {"samples": 600.0, "epochs": 3.0}, LOOP)
    assert (run.loop_share, run.fixed_seconds) == (0.6, pytest.approx(40.0))
    assert Quantity("samples", is_loop=True).seconds_per_unit(run) == pytest.approx(0.2)
    assert Quantity("epochs", is_loop=True).seconds_per_unit(run) == pytest.approx(40.0)
    assert Quantity("samples", is_loop=False).seconds_per_unit(run) == pytest.approx(1 / 3)
    assert Quantity("tokens", is_loop=True).seconds_per_unit(run) is None


def test_a_run_tells_its_loop_first_and_its_samples_first():
    work = {"epochs": 3.0, "steps": 30.0, "tokens": 900.0, "samples": 600.0}
    expected = ["samples", "tokens", "steps", "epochs"]
    for unit in expected:
        assert quantity(MachineWork(200.0, 100.0, work, LOOP)) == Quantity(unit, is_loop=True)
        assert quantity(MachineWork(200.0, 100.0, work)) == Quantity(unit, is_loop=False)
        del work[unit]
    assert quantity(MachineWork(200.0, 100.0, work, LOOP)) is None


@pytest.mark.parametrize(
    "run",
    [
        MachineWork(None, 100.0, {"samples": 6.0}, LOOP),
        MachineWork(0.0, 100.0, {"samples": 6.0}, LOOP),
        MachineWork(math.inf, 100.0, {"samples": 6.0}, LOOP),
        MachineWork(200.0, 100.0, {"samples": 0.0009}, LOOP),
        MachineWork(200.0, 100.0, {}, LOOP),
    ],
)
def test_a_run_without_time_or_work_tells_nothing(run):
    assert quantity(run) is None


def test_without_a_duration_the_start_up_is_not_known():
    run = MachineWork(200.0, None, {"samples": 0.001}, LOOP)
    assert (run.loop_share, run.fixed_seconds) == (None, None)
    assert MachineWork(200.0, 100.0).fixed_seconds is None
    assert Quantity("samples", is_loop=False).seconds_per_unit(run) == pytest.approx(200_000)


# What is told beside


def told(
    now: dict[str, object], before: dict[str, object] | None = None, count: int = 3
) -> list[str]:
    def circumstances(facts: dict[str, object]) -> Circumstances:
        usual = {
            "work": {"samples": 1000.0, "steps": 100.0, "epochs": 10.0},
            "phases": LOOP, "duration": 100.0, "usd": Decimal(2), "share": 1.0,
        } | facts  # fmt: skip
        worked = MachineWork(100.0, usual["duration"], usual["work"], usual["phases"])  # type: ignore[arg-type]
        return Circumstances(worked, usual["usd"], usual["share"])  # type: ignore[arg-type]

    return describe_changes([circumstances(before or {})] * count, circumstances(now))


def test_nothing_is_told_where_nothing_changed_or_nothing_is_known():
    assert told({}) == []
    assert told({"usd": Decimal(9)}, count=0) == []
    unknown = {"usd": None, "share": None, "phases": {}, "work": {}, "duration": None}
    assert told(unknown) == told({}, unknown) == []


@pytest.mark.parametrize(
    ("now", "words"),
    [
        ({"usd": Decimal(1)}, "The price is $1.00 an hour instead of $2.00."),
        ({"usd": Decimal("2.02")}, "The price is $2.02 an hour instead of $2.00."),
        ({"usd": Decimal("2.01")}, ""),
        ({"share": 0.5}, "It is charged for 50 % of its machines instead of 100 %."),
        ({"share": 0.96}, ""),
        ({"share": 0.94}, "It is charged for 94 % of its machines instead of 100 %."),
        (
            {"duration": 120.0, "phases": LOOP},
            "Start-up and end took 60 s instead of 40 s.",
        ),
        ({"duration": 109.0, "phases": LOOP}, ""),
        ({"duration": 111.0, "phases": LOOP}, "Start-up and end took 51 s instead of 40 s."),
        (
            {"work": {"samples": 2000.0, "steps": 100.0, "epochs": 10.0}},
            "An epoch has 2 times the samples that it had before.",
        ),
        ({"work": {"samples": 1049.0, "epochs": 10.0}}, ""),
        ({"work": {"samples": 940.0, "epochs": 10.0}}, "An epoch has 0.94 times the samples"),
        ({"work": {"steps": 150.0, "epochs": 10.0}}, "An epoch has 1.5 times the steps"),
        ({"work": {"samples": 100.0, "epochs": 1.0}}, ""),
    ],
)
def test_it_tells_what_differs_from_the_usual(now, words):
    said = told(now)
    assert len(said) == (1 if words else 0)
    assert all(sentence.startswith(words) for sentence in said)


# Comparability


def test_three_of_five_values_that_occur_once_are_enough():
    def role(*values: int) -> str:
        return roles([{"fold": value} for value in values])["fold"].role

    assert role(1, 2, 3, 4, 4) == IGNORED
    assert role(1, 2, 3, 3, 3) == WORK
    assert role(1, 2) == WORK


def test_the_differing_fields_are_those_that_count():
    known = {"fold": Role(IGNORED, ""), "batch": Role(TUNING, ""), "depth": Role(WORK, "")}
    one = {"fold": 1, "batch": 2, "depth": 3, "data": "x-2026-01-01"}
    other = {"fold": 9, "batch": 4, "depth": 3, "data": "x-2026-02-02", "width": 5}
    assert differences(one, other, known) == {"batch": (2, 4), "width": (None, 5)}


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (
            {"share": 0.8},
            {"share": 0.75},
            "It is charged for 75 % of its machines instead of 80 %.",
        ),
        ({"share": 0.8}, {"share": 0.77}, ""),
        ({"work": {"tokens": 100.0, "epochs": 1.0}}, {"work": {"tokens": 200.0, "epochs": 1.0}},
         "An epoch has 2 times the tokens that it had before."),
        (
            {"duration": 1000.0, "phases": {"initialise": 370.0, "train": 630.0}},
            {"duration": 1000.0, "phases": {"initialise": 400.0, "train": 600.0}},
            "",
        ),
        (
            {"duration": 1000.0, "phases": {"initialise": 340.0, "train": 660.0}},
            {"duration": 1000.0, "phases": {"initialise": 400.0, "train": 600.0}},
            "Start-up and end took 400 s instead of 340 s.",
        ),
        ({"duration": None}, {"duration": 900.0}, ""),
    ],
)  # fmt: skip
def test_it_is_told_relative_to_the_usual(before, now, words):
    assert told(now, before) == ([words] if words else [])
