"""Successive runs of one job: keys, comparison with the baseline, change points, history."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.successive.baseline import (
    BASELINE,
    BETTER,
    CAVEAT,
    CHANGE_POINTS,
    INTERVAL,
    SAME,
    WORSE,
    compare_to_baseline,
)
from advisor.successive.causes import Measured, causes
from advisor.successive.change_points import change_points
from advisor.successive.history import CLEARED, CONFIRMED, OK, SUSPECTED, Observation, judge_runs
from advisor.successive.wording import sentence
from advisor.successive.workload_keys import configuration_key, workload_key

CALM = [1.0, 1.01, 0.99, 1.005, 0.995, 1.0, 1.01, 0.99, 1.0, 1.005, 0.995, 1.0]


def history(*values: float, pinned: tuple[int, ...] = ()):  # type: ignore[no-untyped-def]
    numbered = enumerate(values, start=1)
    return judge_runs(Observation(n, v, is_pinned=n in pinned) for n, v in numbered)


def statuses(*values: float, **more) -> list[str]:  # type: ignore[no-untyped-def]
    return [each.status for each in history(*values, **more)]


def test_tuning_is_another_configuration_of_the_same_workload():
    workload = {"entry_point": "train.py", "dataset": "imagenet"}
    one = {"batch_size": 256, "num-workers": 2, "lr": 0.1, "depth": 50, "seed": 1}
    other = one | {"batch_size": 512, "num-workers": 8, "lr": 0.2, "seed": 2}
    assert workload_key(workload, one) == workload_key(workload, other)
    assert configuration_key(one) != configuration_key(other)
    assert configuration_key(one) == configuration_key(one | {"lr": 9, "seed": 9, "depth": 9})


@pytest.mark.parametrize(
    "change", [{"depth": 101}, {"hidden_size": 8}, {"data_dir": "coco"}, {"--model-name": "vit"}]
)
def test_another_model_or_dataset_is_another_workload(change):
    one = {"depth": 50, "data_dir": "imagenet", "--model-name": "resnet", "output_dir": "/a"}
    assert workload_key({}, one) == workload_key({}, one | {"output_dir": "/b"})
    assert workload_key({}, one) != workload_key({}, one | change)


@pytest.mark.parametrize(
    "machines", [{"instance_type": "g5.xlarge"}, {"node_count": 2}, {"purchase_option": "spot"}]
)
def test_other_machines_are_another_configuration(machines):
    one = {"instance_type": "p3.8xlarge", "node_count": 1, "purchase_option": "on_demand"}
    assert configuration_key(one) != configuration_key(one | machines)


def test_the_first_runs_record_a_baseline_and_then_only_a_difference():
    assert compare_to_baseline([], 1.0).rung == BASELINE
    for before in ([1.0], [1.0, 1.0]):
        comparison = compare_to_baseline(before, 5.0)
        assert (comparison.rung, comparison.direction) == (CAVEAT, SAME)
        assert comparison.change == pytest.approx(4.0)
        assert comparison.detects is None


def test_from_three_on_a_run_outside_of_the_interval_is_called_by_its_direction():
    calm = [1.0, 1.01, 0.99]
    assert compare_to_baseline(calm, 1.10).direction == WORSE
    assert compare_to_baseline(calm, 0.90).direction == BETTER
    comparison = compare_to_baseline(calm, 1.02)
    assert (comparison.rung, comparison.direction) == (INTERVAL, SAME)
    assert comparison.low is not None
    assert comparison.high is not None
    assert comparison.low < 0.99 < 1.01 < comparison.high
    assert compare_to_baseline(CALM, 1.0).rung == CHANGE_POINTS


@given(st.floats(0.96, 1.049))
def test_less_than_five_percent_is_never_called_however_sure(value):
    assert compare_to_baseline([1.0, 1.0, 1.0, 1.0], value).direction == SAME


values = st.lists(st.floats(0.5, 2), min_size=3, max_size=20)


@given(values, st.floats(0.5, 2), st.floats(0.001, 1000))
def test_the_verdict_doesnt_depend_on_the_currency(before, value, factor):
    plain = compare_to_baseline(before, value)
    scaled = compare_to_baseline([v * factor for v in before], value * factor)
    assert plain.change == pytest.approx(scaled.change, abs=1e-9)
    assert plain.detects == pytest.approx(scaled.detects)
    assert scaled.low == pytest.approx(plain.low * factor)


@given(values)
def test_what_it_says_it_would_see_it_calls(before):
    comparison = compare_to_baseline(before, before[0])
    assert comparison.expected is not None
    assert comparison.detects is not None
    detectable = comparison.expected * (1 + comparison.detects) * 1.0001
    assert compare_to_baseline(before, detectable).direction == WORSE


def test_one_odd_run_is_cleared_by_the_next_and_two_confirm_each_other():
    calm = CALM[:4]
    assert statuses(*calm, 1.2, 1.0) == [OK] * 4 + [CLEARED, OK]
    assert statuses(*calm, 1.2) == [OK] * 4 + [SUSPECTED]
    assert statuses(*calm, 1.2, 1.21) == [OK] * 4 + [CONFIRMED, CONFIRMED]
    assert statuses(*calm, 1.2, 0.8) == [OK] * 4 + [CLEARED, SUSPECTED]
    confirmed = history(*calm, 1.2, 1.21)[-1]
    assert (confirmed.since, confirmed.comparison.direction) == (5, WORSE)


def test_a_confirmed_level_is_the_baseline_from_then_on():
    judged = history(*CALM[:4], 1.2, 1.21, 1.19, 1.2, 1.2, 1.35)
    assert [each.status for each in judged[6:]] == [OK, OK, OK, SUSPECTED]
    assert judged[-1].comparison.expected == pytest.approx(1.2, rel=0.01)


def test_an_odd_run_doesnt_blunt_the_history():
    spiked = history(*CALM[:4], 2.0, 1.0, 1.0)
    assert spiked[-1].comparison.detects == pytest.approx(
        history(*CALM[:4], 1.0, 1.0)[-1].comparison.detects, rel=0.5
    )


def test_pinned_runs_are_the_baseline_alone():
    judged = history(1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0, pinned=(1, 2, 3))
    assert judged[-1].comparison.baseline_runs == 3
    assert judged[-1].comparison.direction == WORSE
    assert judged[-1].comparison.change == pytest.approx(1.0)


def test_a_change_is_found_where_it_began():
    assert change_points(CALM[:8] + [v * 1.3 for v in CALM[:6]]) == [8]
    assert change_points([*CALM, 1.4, *CALM]) == []
    assert change_points(CALM) == []
    assert change_points([1.0] * 6 + [2.0] * 6) == [6]
    assert change_points([1.0, 1.0, 5.0, 5.0]) == []


def test_two_changes_are_both_found():
    levels = [v * level for level in (1.0, 1.5, 0.7) for v in CALM[:8]]
    assert change_points(levels) == [8, 16]


def test_a_creeping_change_that_no_single_run_showed_is_confirmed_with_its_first_run():
    random = np.random.default_rng(5)
    noise = np.exp(random.normal(0, 0.025, 40))
    values = [v * (1.07 if n >= 20 else 1.0) for n, v in enumerate(noise)]
    crept = [each for each in history(*values) if each.status == CONFIRMED]
    assert crept
    assert crept[0].comparison.direction == WORSE
    assert 18 <= (crept[0].since or 0) <= 24


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=90))
def test_every_run_that_matters_gets_a_verdict_in_order(seen):
    judged = history(*seen)
    numbers = [each.number for each in judged]
    assert numbers == list(range(max(len(seen) - 59, 1), len(seen) + 1))
    for before, after in pairwise(judged):
        assert before.status != SUSPECTED, f"{before.number} still is, after {after.number}"


def test_it_names_what_moved_along_with_the_cost():
    def run(train: float, wait: float, step: float) -> Measured:
        return Measured(
            {"initialise": 10.0, "train": train},
            {"data_wait_share": wait, "step_seconds_p50": step, "gpu_busy_p95_pct": None},
        )

    usual = [run(90.0, 0.05, 0.2) for _ in range(4)]
    likely = causes(usual, run(120.0, 0.30, 0.27))
    assert [cause.what for cause in likely] == [
        "phase train",
        "median step time",
        "data wait",
    ]
    assert likely[0].words == "train took longer, by 30 % of a run's usual time"
    assert likely[2].words == "data wait rose from 5 to 30 %"
    assert causes(usual, run(90.5, 0.06, 0.2)) == []
    assert causes([], run(1, 0, 1)) == []


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([1.0], "recorded as the baseline"),
        ([1.0, 1.2], "+20.0 % cost per epoch compared with 1 comparable run: too few"),
        ([*CALM[:4], 1.3], "Suspected regression, to be confirmed by the next run: +29.8 %"),
        ([*CALM[:4], 1.3, 1.3], "Confirmed regression since run #5"),
        ([*CALM[:4], 0.7], "Suspected improvement"),
        ([*CALM[:4], 1.0], "As expected: "),
        ([*CALM[:4], 1.0], "The smallest detectable change is "),
    ],
)
def test_it_says_what_is_likely_in_words(values, words):
    assert words in sentence(history(*values)[-1], "epoch")


def test_the_promises_on_false_alarms_and_power_hold_in_simulation():
    done = subprocess.run(
        [sys.executable, "-m", "bench.regressions", "--check", "--histories", "2000"],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "false alarms" in done.stdout
