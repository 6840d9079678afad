"""Levels that few things fool: young ones, times of the week, and machines nobody knows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.successive.history import JudgedHistory, judge_runs
from advisor.successive.judged_run import (
    CLEARED,
    CONFIRMED,
    OK,
    OPEN,
    SUSPECTED,
    WORSE,
    Observation,
)
from advisor.successive.machines import MachineEffect
from advisor.successive.modes import spread_of_two
from advisor.successive.noise import students_t
from advisor.successive.wording import period_words, sentence

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def of(
    values: Sequence[float], every: timedelta = DAY, machines: Sequence[str] = (), **pinned: int
) -> JudgedHistory:
    """Runs at this interval from a Monday's midnight on, numbered from 1."""
    return judge_runs(
        Observation(
            number=n,
            value=value,
            at=MONDAY + (n - 1) * every,
            machine=machines[n - 1] if machines else "",
            is_pinned=n == pinned.get("pinned"),
        )
        for n, value in enumerate(values, start=1)
    )


def statuses(values: Sequence[float]) -> list[str]:
    return [run.status for run in of(values).judged_runs]


def is_alarmed(history: JudgedHistory) -> bool:
    return any(run.status == CONFIRMED for run in history.judged_runs)


def varying(seed: int, count: int, variation: float = 0.02) -> list[float]:
    return list(np.exp(np.random.default_rng(seed).normal(0, variation, count)))


# A lasting change after few runs

CLEARING = [1.0, 1.01, 0.99, 1.04, 1.10, 1.04, 1.12, 1.11]
"""The runs take about 8 % longer from the fourth on; the fourth and sixth are inside."""


def test_cleared_suspects_of_a_lasting_change_are_part_of_it():
    judged = of(CLEARING).judged_runs
    assert judged[4].status == CLEARED
    found = judged[-1]
    assert (found.status, found.direction, found.since) == (CONFIRMED, WORSE, 4)
    assert found.regression is not None
    assert found.regression.reference == (1, 2, 3)
    assert "gradually" not in sentence(found, "epoch")
    assert statuses([*CLEARING, 1.08])[-1] == OPEN


def test_a_level_of_pinned_runs_is_not_cut():
    assert of(CLEARING, pinned=1).judged_runs[-1].regression is None


def test_outliers_among_the_newest_runs_are_no_lasting_change():
    for odd in ([1.3, 1.0, 1.0, 1.3], [1.0, 1.3, 1.0, 1.3, 1.0, 1.3]):
        assert CONFIRMED not in statuses([1.0, 1.01, 0.99, *odd])


@pytest.mark.parametrize("step", [1.02, 1.04, 1.06])
def test_a_small_change_is_not_told_from_few_runs(step):
    assert CONFIRMED not in statuses([1.0] * 3 + [step] * 4)


def test_a_step_after_two_runs_is_no_regression():
    judged = of([1.0, 1.0, 1.3, 1.3]).judged_runs
    assert [run.status for run in judged] == [OK] * 4
    assert judged[-1].regression is None


@given(st.integers(1, 60), st.floats(1e-6, 1e6))
def test_a_constant_history_is_never_alarmed(count, value):
    assert set(statuses([value] * count)) == {OK}


@given(st.integers(0, 10_000), st.sampled_from([1e-4, 7.0, 1e5]))
def test_a_young_levels_change_doesnt_depend_on_the_unit(seed, factor):
    values = varying(seed, 11, 0.04)
    values[3:] = [1.1 * value for value in values[3:]]
    one, other = (of([f * value for value in values]).judged_runs for f in (1.0, factor))
    assert [(r.status, r.since) for r in one] == [(r.status, r.since) for r in other]


@given(st.lists(st.floats(0.85, 1.25), min_size=4, max_size=24))
def test_what_is_no_longer_suspected_stays_as_it_is_told(values):
    whole = of(values).judged_runs
    for count in range(4, len(values)):
        before = of(values[:count]).judged_runs
        settled = [run for run in before if run.status != SUSPECTED]
        assert all(run == whole[run.number - 1] for run in settled)


# Student's t


@pytest.mark.parametrize(
    ("normal", "freedom", "t"), [(1.96, 10, 2.228), (1.96, 30, 2.042), (2.576, 10, 3.169)]
)
def test_students_t_is_that_of_the_tables(normal, freedom, t):
    assert students_t(normal, freedom) == pytest.approx(t, rel=0.01)


# Times of the week


def with_weekends(days: int, longer: float = 1.06) -> list[float]:
    """Daily runs that vary little."""
    quiet = [1.0, 1.004, 0.996]
    is_weekend = [(MONDAY + n * DAY).weekday() >= 5 for n in range(days)]
    return [quiet[n % 3] * (longer if odd else 1.0) for n, odd in enumerate(is_weekend)]


def test_weekends_that_take_longer_are_told_and_no_regression():
    history = of(with_weekends(60))
    assert not is_alarmed(history)
    (weekend,) = history.period_effects
    assert weekend.machine == "Saturdays and Sundays"
    assert weekend.change == pytest.approx(0.06, abs=0.005)
    assert weekend.low < 0.06 < weekend.high
    last_saturday = history.judged_runs[54]
    assert last_saturday.change == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize(("days", "is_told"), [(13, False), (14, True)])
def test_a_time_of_the_week_takes_two_full_weeks(days, is_told):
    assert bool(of([*with_weekends(days), 1.0]).period_effects) is is_told


def test_nights_that_take_longer_are_told():
    values = [1.08 if n % 4 == 0 else 1.0 for n in range(80)]
    history = of(values, every=6 * HOUR)
    (night,) = history.period_effects
    assert (night.machine, night.change) == (
        "days from 0:00 to 6:00",
        pytest.approx(0.08, abs=0.01),
    )


def test_a_regression_is_found_beside_weekends_that_take_longer():
    values = with_weekends(28)
    values += [1.12 * value for value in with_weekends(35)[28:]]
    regression = of(values).judged_runs[-1].regression
    assert regression is not None
    assert regression.since == 29
    assert regression.change == pytest.approx(0.12, abs=0.02)


def test_a_time_of_the_week_is_told_with_its_interval():
    assert period_words(MachineEffect("Mondays", 0.09, 0.06, 0.12, 5, 20)) == (
        "Runs on Mondays take 9 % longer (6 % to 12 %): 5 runs against 20 at other times. "
        "This is not counted as a change of the job."
    )


# Two modes


def two_kinds(seed: int, count: int) -> list[float]:
    random = np.random.default_rng(seed)
    return list(np.where(random.random(count) < 0.5, 0.9, 1.1) * varying(seed, count))


def test_two_modes_widen_the_noise_if_nobody_knows_the_machines():
    values = [1.0] * 8 + [1.2] * 4 + [1.0, 1.2] * 3 + [1.0] * 8
    assert of(values).noise.spread > 0.4 * math.log(1.2)
    known = of(values, machines=["fast" if value == 1 else "slow" for value in values])
    assert known.noise.spread < 0.04


def test_runs_of_two_modes_that_are_known_raise_no_alarm():
    values = two_kinds(3, 60)
    assert all(run.status == OK for run in of(values).judged_runs[20:])


def test_one_mode_and_levels_are_not_two_modes():
    assert spread_of_two([]) is None
    assert spread_of_two([0.0] * 20) is None
    assert spread_of_two([0.0] * 10 + [0.2] * 10) is None
    assert spread_of_two([0.0] * 10 + [0.2] * 6 + [0.0, 0.2]) is None


def test_a_few_outliers_are_no_mode():
    assert spread_of_two(([0.0] * 9 + [0.3]) * 4) is None


def test_modes_that_come_and_go_are_two():
    assert spread_of_two([0.0, 0.2] * 6) == pytest.approx(0.1)
