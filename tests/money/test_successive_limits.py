"""The points at which a run's verdict turns: intervals, confirmations and levels, counted by hand.

Equal runs tell no noise of their own. So after `n` of them the spread is that of the prior, 2 %
with 24 degrees of freedom, and their `n - 1`: 0.02 sqrt(24 / (24 + n - 1)).
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from advisor.successive.comparability import configuration_key, roles, strip_dates, workload_key
from advisor.successive.gradual import gradual_change
from advisor.successive.history import JudgedHistory, judge_runs
from advisor.successive.judged_run import (
    BETTER,
    CLEARED,
    CONFIRMED,
    OK,
    OPEN,
    SAME,
    SUSPECTED,
    WORSE,
    Observation,
)
from advisor.successive.noise import Noise

DAY = datetime(2026, 3, 1, tzinfo=UTC)
GATE = math.log(1.05)


def of(*values: float, pinned: tuple[int, ...] = ()) -> JudgedHistory:
    """Judge daily runs, numbered from 1."""
    return judge_runs(
        Observation(n, value, DAY + timedelta(days=n), is_pinned=n in pinned)
        for n, value in enumerate(values, start=1)
    )


def statuses(*values: float) -> list[str]:
    return [run.status for run in of(*values).judged_runs]


def spread(runs: int) -> float:
    return 0.02 * math.sqrt(24 / (24 + runs - 1))


# Intervals


@pytest.mark.parametrize(("runs", "margin"), [(3, 0.058801), (4, 0.055876), (5, 0.053741)])
def test_the_interval_of_the_first_runs_is_265_spreads_of_a_difference(runs, margin):
    assert margin == pytest.approx(2.65 * spread(runs) * math.sqrt(1 / runs + 1), rel=1e-3)
    last = of(*[1.0] * runs, 1.0).judged_runs[-1]
    assert (last.low, last.high) == (
        pytest.approx(math.exp(-margin), rel=1e-4),
        pytest.approx(math.exp(margin), rel=1e-4),
    )
    detects = margin + 0.84 * spread(runs) * math.sqrt(1 / runs + 1)
    assert last.detects == pytest.approx(math.expm1(detects), rel=1e-3)


def test_a_long_levels_interval_is_the_gate_and_its_newest_thirty_runs_are_compared():
    found = of(*[1.0] * 40)
    last = found.judged_runs[-1]
    assert (last.low, last.high) == (pytest.approx(1 / 1.05), pytest.approx(1.05))
    assert last.baseline == tuple(range(10, 40))
    assert found.machine_effects == []


def test_noise_is_that_of_a_levels_newest_sixty_runs():
    assert of().noise == Noise(0.02, 0)
    assert of(*[1.0] * 70).noise.freedom == 59
    assert of(*[1.0] * 50).noise.freedom == 48


def test_a_run_without_verdict_has_no_direction():
    assert of(1.0).judged_runs[0].direction == SAME


# Confirmations


@pytest.mark.parametrize(
    ("apart", "status"), [(0.050, CONFIRMED), (0.054, CONFIRMED), (0.056, SUSPECTED)]
)
def test_two_suspected_runs_confirm_each_other_within_22_spreads(apart, status):
    """The limit after 8 runs is 2.2 x 0.0176 x sqrt(2) = 0.0548."""
    assert spread(8) == pytest.approx(0.0176, rel=1e-2)
    assert statuses(*[1.0] * 8, 1.2, 1.2 * math.exp(apart))[-2:] == [status, status]


def test_a_third_suspected_run_confirms_however_far_they_are_apart():
    assert statuses(*[1.0] * 8, 1.2, 1.5, 1.3)[-3:] == [CONFIRMED] * 3


def test_each_similar_outlier_before_asks_for_one_more_run_up_to_four():
    for outliers, needed in ((0, 2), (1, 3), (2, 4), (3, 4), (4, 4)):
        calm = [1.0] * 12 + [1.2, 1.0, 1.0] * outliers
        assert statuses(*calm, *[1.2] * (needed - 1))[-1] == SUSPECTED, outliers
        assert statuses(*calm, *[1.2] * needed)[-1] == CONFIRMED, outliers


def test_outliers_the_other_way_or_of_less_than_half_ask_for_nothing_more():
    for outlier in (1 / 1.2, 1.08):
        calm = [1.0] * 12 + [outlier, 1.0, 1.0]
        assert statuses(*calm, 1.2, 1.2)[-1] == CONFIRMED
    assert statuses(*[1.0] * 12, 1.11, 1.0, 1.0, 1.2, 1.2)[-1] == SUSPECTED


def test_runs_that_resemble_the_one_before_ask_for_one_more():
    waves = ([1.015] * 5 + [0.985] * 5) * 3
    assert 0.25 < of(*waves, 1.0).noise.correlation < 0.9
    assert statuses(*waves, 1.3, 1.3)[-1] == SUSPECTED
    assert statuses(*waves, 1.3, 1.3, 1.3)[-1] == CONFIRMED
    tooth = [1.015, 0.985] * 15
    assert of(*tooth, 1.0).noise.correlation == 0
    assert statuses(*tooth, 1.3, 1.3)[-1] == CONFIRMED


# Back at the level before


def test_a_run_is_back_beyond_175_spreads_of_the_worse_level():
    """The level is 6 % above the one before, so that 5 % of gate alone would see no way back."""
    worse = [1.0] * 10 + [1.08] * 6
    assert statuses(*worse)[-1] == OPEN
    margin = 1.75 * spread(15) * math.sqrt(1 / 6 + 1)
    assert margin == pytest.approx(0.0301, rel=2e-2)
    inside = of(*worse, 1.08 * math.exp(-0.028)).judged_runs[-1]
    assert (inside.status, inside.is_back) == (OPEN, False)
    back = of(*worse, 1.08 * math.exp(-0.045)).judged_runs[-1]
    assert (back.status, back.direction, back.is_back) == (SUSPECTED, BETTER, True)


def test_two_runs_confirm_that_it_is_back_whatever_outliers_there_were():
    worse = [1.0] * 10 + [1.2] * 6 + [1.0, 1.2, 1.2]
    found = of(*worse, 1.0, 1.0).judged_runs
    assert [run.status for run in found[-2:]] == [CONFIRMED] * 2
    assert found[-1].ended is not None
    assert found[-1].ended.since == 11
    assert found[-1].regression is None


def test_a_regression_that_falls_by_half_stays_open_and_one_that_is_back_is_over():
    worse = [1.0] * 10 + [1.4] * 6
    open_still = of(*worse, *[1.2] * 5).judged_runs[-1]
    assert open_still.regression is not None
    assert open_still.regression.since == 11
    assert open_still.regression.change == pytest.approx(0.2, abs=0.001)
    over = of(*worse, *[1.0] * 2).judged_runs[-1]
    assert over.regression is None
    assert over.ended is not None
    assert over.ended.since == 11


def test_pinned_runs_are_what_every_later_run_is_compared_with():
    last = of(*[1.0] * 5, *[1.1] * 5, pinned=(6, 7)).judged_runs[-1]
    assert last.baseline == (6, 7)
    assert last.change == pytest.approx(0.0, abs=1e-9)


def test_outliers_are_cleared_by_the_next_run_inside():
    assert statuses(*[1.0] * 8, 1.3, 1.0)[-2:] == [CLEARED, OK]
    assert of(*[1.0] * 8, 0.7).judged_runs[-1].direction == BETTER
    assert of(*[1.0] * 8, 1.3).judged_runs[-1].direction == WORSE


# Gradual changes


def since_a_month(
    noise_spread: float,
    old: int = 6,
    new: int = 6,
    last: float = 0.06,
    correlation: float = 0.0,
    days_old: float = 30,
) -> int | None:
    """Return since which run it is worse: `old` runs a month before the last ones, eight between at
    half the change.
    """
    values = [1.0] * old + [1.0 + last / 2] * 8 + [1.0 + last] * new
    end = DAY + timedelta(days=60)
    times = [end - timedelta(days=days_old, hours=old - 1 - n) for n in range(old)]
    times += [end - timedelta(days=20 - n) for n in range(8)]
    times += [end - timedelta(hours=12 * (new - 1 - n)) for n in range(new)]
    return gradual_change(values, times, Noise(noise_spread, 30, correlation), GATE)


def test_the_newest_six_runs_are_compared_with_six_of_a_month_before():
    """0.06 / sqrt(2 / 6) is 3.5 spreads of 0.0297; no cut in two is as clear."""
    assert since_a_month(0.0295) == 14
    assert since_a_month(0.0299) is None
    assert since_a_month(0.0295, days_old=29.9) is None
    assert since_a_month(0.0295, days_old=31) == 14
    assert since_a_month(0.0295, old=5) is None
    assert since_a_month(0.0280, old=5) == 13
    assert since_a_month(0.0200, old=4) != 12


def test_correlated_runs_need_a_larger_change():
    assert since_a_month(0.0295, correlation=0.3) is None
    assert since_a_month(0.0200, correlation=0.3) == 14


def test_a_change_below_the_gate_is_none_however_sure():
    assert since_a_month(0.004, last=0.045) is None
    assert since_a_month(0.004, last=0.052) is not None


def test_each_side_of_a_cut_has_five_runs():
    step = [0.0] * 40 + [0.2] * 4
    assert gradual_change(step, [DAY] * 44, Noise(0.02, 30), GATE) == 39
    assert gradual_change([0.0] * 4 + [0.2] * 4, [DAY] * 8, Noise(0.02, 30), GATE) is None


# Keys


def test_keys_are_stored_so_that_releases_must_not_change_them():
    workload = {"entry_point": "train.py", "dataset": "s3://data/2026-03-01/imagenet"}
    parameters = {"lr": 0.1, "hidden_size": 256, "seed": 4, "data_dir": "/data"}
    known = roles([parameters])
    assert workload_key(workload, parameters, known) == "e377f439f22f9b1a"
    assert (
        configuration_key({"instance_type": "g5.xlarge", **parameters}, known) == "3f81ae8f801502ca"
    )


def test_only_text_and_whole_numbers_hold_dates():
    run = "run-20260301"
    assert strip_dates([run, ["a", run]]) == ["run-#", ["a", "run-#"]]
    assert strip_dates((run, 20260301)) == ["run-#", "#"]
    assert strip_dates({"a": {"b": run}}) == {"a": {"b": "run-#"}}
    for value in (True, False, 20.5, None, "plain", 7):
        assert strip_dates(value) is value
