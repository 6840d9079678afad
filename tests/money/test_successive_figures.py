"""A run compared with those before it: intervals, histories, causes and texts, at their limits."""

from __future__ import annotations

import math
from typing import Any

import pytest

from advisor.successive.baseline import (
    BASELINE,
    BETTER,
    CAVEAT,
    CHANGE_POINTS,
    INTERVAL,
    SAME,
    WORSE,
    BaselineComparison,
    compare_to_baseline,
)
from advisor.successive.causes import Measured, causes
from advisor.successive.history import (
    CLEARED,
    CONFIRMED,
    OK,
    SUSPECTED,
    JudgedRun,
    Observation,
    judge_runs,
)
from advisor.successive.wording import sentence

THREE = [1.0, math.exp(0.02), math.exp(-0.02)]
"""Logarithms with a mean of 0 and a standard deviation of 0.02."""
T_975, T_80 = 4.302653, 1.060660
"""Student's t with two degrees of freedom, from a printed table."""
SPREAD = 0.02 * math.sqrt(4 / 3)


# The comparison with the baseline


@pytest.mark.parametrize(
    ("runs", "rung"),
    [(0, BASELINE), (1, CAVEAT), (2, CAVEAT), (3, INTERVAL), (9, INTERVAL), (10, CHANGE_POINTS)],
)
def test_the_rung_goes_by_the_runs_before(runs, rung):
    comparison = compare_to_baseline([1.0] * runs, 2.0)
    assert (comparison.rung, comparison.baseline_runs) == (rung, runs)
    assert comparison.direction == (WORSE if runs >= 3 else SAME)


def test_the_words_that_are_kept_with_a_run_stay_what_they_were():
    assert [BASELINE, CAVEAT, INTERVAL, CHANGE_POINTS] == [
        "baseline", "caveat", "interval", "change_points",
    ]  # fmt: skip
    assert [BETTER, WORSE, SAME] == ["better", "worse", "same"]
    assert [OK, SUSPECTED, CONFIRMED, CLEARED] == ["ok", "suspected", "confirmed", "cleared"]


def test_a_first_run_is_compared_with_nothing():
    assert compare_to_baseline([], 2.0) == BaselineComparison(
        BASELINE, SAME, 0, change=None, expected=None, low=None, high=None, detects=None
    )


def test_one_or_two_runs_give_a_difference_and_no_interval():
    comparison = compare_to_baseline([2.0, 8.0], 5.0)
    assert (comparison.expected, comparison.change) == pytest.approx((4.0, 0.25))
    assert (comparison.low, comparison.high, comparison.detects) == (None, None, None)


def test_the_interval_is_that_of_students_t_for_one_more_run():
    comparison = compare_to_baseline([10 * value for value in THREE], 10.0)
    margin = T_975 * SPREAD
    assert comparison.expected == pytest.approx(10)
    assert comparison.change == pytest.approx(0)
    assert comparison.low == pytest.approx(10 * math.exp(-margin), rel=1e-6)
    assert comparison.high == pytest.approx(10 * math.exp(margin), rel=1e-6)
    assert comparison.detects == pytest.approx(math.expm1(margin + T_80 * SPREAD), rel=1e-6)


@pytest.mark.parametrize(
    ("log_ratio", "direction"),
    [
        (T_975 * SPREAD * 1.0001, WORSE),
        (T_975 * SPREAD * 0.9999, SAME),
        (-T_975 * SPREAD * 0.9999, SAME),
        (-T_975 * SPREAD * 1.0001, BETTER),
    ],
)
def test_a_run_is_outside_from_the_ends_of_its_interval_on(log_ratio, direction):
    comparison = compare_to_baseline(THREE, math.exp(log_ratio))
    assert comparison.direction == direction
    assert comparison.change == pytest.approx(math.expm1(log_ratio))
    assert comparison.is_significant == (direction != SAME)


@pytest.mark.parametrize(
    ("value", "direction"),
    [(1.0499, SAME), (1.0501, WORSE), (1 / 1.0499, SAME), (1 / 1.0501, BETTER)],
)
def test_five_percent_up_and_the_same_ratio_down_are_the_least_that_matters(value, direction):
    comparison = compare_to_baseline([1.0] * 4, value)
    assert comparison.direction == direction
    assert comparison.detects == pytest.approx(0.05)


# The history


def history(values: list[float]) -> list[JudgedRun]:
    return judge_runs(Observation(number, value) for number, value in enumerate(values, start=1))


def test_the_newest_thirty_runs_are_the_baseline():
    last = history([1.0] * 40)[-1]
    assert last.comparison.baseline_runs == 30
    drift = history([1.0] * 5 + [1.04] * 31)
    assert drift[-1].comparison.expected == pytest.approx(1.04)


def test_only_the_last_sixty_runs_are_looked_at():
    judged = history([1.0] * 75)
    assert [judged[0].number, judged[-1].number, len(judged)] == [16, 75, 60]
    assert judged[0].comparison.rung == BASELINE


CREPT = [0.96, 1.04] * 6 + [1.065, 1.07, 1.075] * 5
"""A level with noise, and another one above it, of which no single run is far enough out."""


def test_a_level_that_crept_in_is_told_with_its_own_change_and_is_the_baseline_then():
    judged = history(CREPT)
    [crept] = [each for each in judged if each.status != OK]
    assert (crept.number, crept.status, crept.since) == (15, CONFIRMED, 13)
    assert (crept.comparison.rung, crept.comparison.direction) == (CHANGE_POINTS, WORSE)
    assert crept.comparison.change == pytest.approx(1.07 / math.sqrt(0.96 * 1.04) - 1)
    assert crept.comparison.baseline_runs == 12
    assert judged[-1].comparison.baseline_runs == 14
    assert judged[-1].comparison.expected == pytest.approx(1.07, abs=0.001)


def test_a_level_that_crept_down_is_better():
    [crept] = [each for each in history([1 / value for value in CREPT]) if each.status != OK]
    assert (crept.since, crept.comparison.direction) == (13, BETTER)
    assert crept.comparison.change == pytest.approx(math.sqrt(0.96 * 1.04) / 1.07 - 1)


# Causes


def run(phases: dict[str, float] | None = None, **figures: Any) -> Measured:
    return Measured(phases or {}, figures)


@pytest.mark.parametrize(
    ("before", "now", "words"),
    [
        (
            {"train": 90.0, "evaluate": 10.0},
            {"train": 92.5, "evaluate": 10.0},
            "train took longer, by 2 %",
        ),
        (
            {"train": 90.0, "evaluate": 10.0},
            {"train": 87.5, "evaluate": 10.0},
            "train took less time, by 2 %",
        ),
        ({"train": 90.0, "evaluate": 10.0}, {"train": 92.4, "evaluate": 10.0}, ""),
        ({"train": 90.0, "evaluate": 10.0}, {"train": 87.6, "evaluate": 10.0}, ""),
        ({"train": 80.0}, {"train": 100.0}, "train took longer, by 25 % of a run's usual time"),
        ({"train": 80.0}, {"train": 80.0, "save": 8.0}, "save took longer, by 10 %"),
        ({"train": 80.0, "save": 20.0}, {"train": 80.0}, "save took less time, by 20 %"),
        ({"train": 0.5}, {"train": 0.75}, "train took longer, by 50 %"),
        ({}, {"train": 100.0}, ""),
        ({"train": 0.0}, {"train": 100.0}, ""),
    ],
)
def test_a_phase_counts_from_a_fortieth_of_the_usual_time_on(before, now, words):
    likely_causes = causes([run(before)], run(now))
    assert [words in cause.words for cause in likely_causes] == ([True] if words else [])
    if likely_causes:
        assert likely_causes[0].what == f"phase {likely_causes[0].words.partition(' ')[0]}"


@pytest.mark.parametrize(
    ("figure", "before", "now", "words"),
    [
        ("data_wait_share", 0.0, 0.05, "data wait rose from 0 to 5 %"),
        ("data_wait_share", 0.05, 0.0, "data wait fell from 5 to 0 %"),
        ("data_wait_share", 0.1, 0.149, ""),
        ("gpu_busy_p95_pct", 90, 85, "GPU busy (p95) fell from 90 to 85 %"),
        ("gpu_busy_p95_pct", 90, 85.1, ""),
        ("gpu_busy_p95_pct", 0, 50, "GPU busy (p95) rose from 0 to 50 %"),
        ("cpu_busy_p95_pct", 20.0, 60.0, "CPU busy (p95) rose from 20 to 60 %"),
        ("cpu_busy_p95_pct", None, 60.0, ""),
        ("cpu_busy_p95_pct", 20.0, None, ""),
        ("cpu_busy_p95_pct", 20.0, math.inf, ""),
        ("cpu_busy_p95_pct", 20.0, "60", ""),
        ("step_seconds_p50", 1.0, 1.05, "median step time is 5 % higher"),
        ("step_seconds_p50", 1.0, 1.049, ""),
        ("step_seconds_p50", 0.2, 0.1, "median step time is 50 % lower"),
        ("step_seconds_p50", 0, 0.1, ""),
        ("step_seconds_p50", 0.2, 0, ""),
        ("step_seconds_p50", 0.2, -0.1, ""),
        ("step_seconds_p50", -0.2, 0.1, ""),
        ("memory_p99_bytes", 2e9, 5e9, "memory in use (p99) is 150 % higher"),
        ("loss", 1.0, 9.0, ""),
    ],
)
def test_a_figure_counts_from_five_points_or_percent_on(figure, before, now, words):
    likely_causes = causes([run(**{figure: before})], run(**{figure: now}))
    assert [cause.words for cause in likely_causes] == ([words] if words else [])
    assert all(cause.words.startswith(cause.what) for cause in likely_causes)


def test_the_usual_is_the_median_of_the_runs_before_that_know_it():
    before = [run({"train": t}, step_seconds_p50=s) for t, s in [(10, 1), (10, 1), (90, 9)]]
    before.append(run({"train": 10.0}))
    assert causes(before, run({"train": 10.0}, step_seconds_p50=1)) == []


def test_the_heaviest_four_come_first():
    """Phases before figures; figures by points, and by the logarithm of their ratio."""
    before = run(
        {"train": 50.0, "evaluate": 50.0},
        data_wait_share=0.1,
        gpu_busy_p95_pct=90.0,
        step_seconds_p50=1.0,
        memory_p99_bytes=1.0,
    )
    now = run(
        {"train": 60.0, "evaluate": 20.0},
        data_wait_share=0.7,
        gpu_busy_p95_pct=80.0,
        step_seconds_p50=math.exp(0.5),
        memory_p99_bytes=math.exp(-0.7),
    )
    likely_causes = causes([before], now)
    assert [cause.what for cause in likely_causes] == [
        "phase evaluate",
        "phase train",
        "memory in use (p99)",
        "data wait",
    ]
    assert [cause.weight for cause in likely_causes] == pytest.approx([1.3, 1.1, 0.7, 0.6])


# Words


def told(status: str, direction: str, since: int | None = None, **more: Any) -> str:
    figures = {"change": 0.123, "detects": 0.054} | more
    held = BaselineComparison(INTERVAL, direction, more.pop("baseline_runs", 4), **figures)
    return sentence(JudgedRun(9, held, status, since), "epoch")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1.0], "First run of this workload in this configuration: recorded as the baseline."),
        (
            [1.0, 1.2],
            "+20.0 % cost per epoch compared with 1 comparable run: "
            "too few runs to tell a change from noise.",
        ),
        (
            [1.0, 1.0, 0.9],
            "−10.0 % cost per epoch compared with 2 comparable runs: "
            "too few runs to tell a change from noise.",
        ),
        (
            [1.0, 1.0, 1.0, 1.0],
            "As expected: +0.0 % cost per epoch compared with 3 comparable runs. "
            "The smallest detectable change is 5 %.",
        ),
    ],
)
def test_it_says_how_sure_it_is(values, words):
    assert sentence(history(values)[-1], "epoch") == words


TAIL = (
    "+12.3 % cost per epoch compared with 4 comparable runs. The smallest detectable change is 5 %."
)


@pytest.mark.parametrize(
    ("status", "direction", "since", "words"),
    [
        ("suspected", WORSE, None, "Suspected regression, to be confirmed by the next run: "),
        ("suspected", BETTER, None, "Suspected improvement, to be confirmed by the next run: "),
        ("confirmed", WORSE, 7, "Confirmed regression since run #7: "),
        ("confirmed", WORSE, None, "Confirmed regression: "),
        ("cleared", WORSE, None, "Outlier, not confirmed by the next run: "),
        ("ok", SAME, None, "As expected: "),
    ],
)
def test_it_says_what_became_of_a_suspicion(status, direction, since, words):
    assert told(status, direction, since) == words + TAIL


def test_it_says_nothing_of_what_it_would_see_where_that_is_not_known():
    assert told("ok", SAME, detects=None) == "As expected: " + TAIL.partition(" The")[0]
