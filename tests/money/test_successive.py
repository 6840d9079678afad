"""A job's runs judged in order, as a sequence of levels."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.successive.history import judge_runs
from advisor.successive.judged_run import (
    BASELINE,
    BETTER,
    CAVEAT,
    CLEARED,
    CONFIRMED,
    LEVEL,
    OK,
    OPEN,
    SAME,
    SUSPECTED,
    WORSE,
    JudgedRun,
    Observation,
)
from advisor.successive.noise import Prior

CALM = [1.0, 1.01, 0.99, 1.005, 0.995, 1.0, 1.01, 0.99, 1.0, 1.005, 0.995, 1.0]
FIRST_DAY = datetime(2026, 3, 1, tzinfo=UTC)


def history(
    *values: float,
    pinned: tuple[int, ...] = (),
    accepted: tuple[int, ...] = (),
    machines: tuple[str, ...] = (),
    prior: Prior | None = None,
) -> list[JudgedRun]:
    """Judge daily runs, numbered from 1."""
    observations = [
        Observation(
            number,
            value,
            FIRST_DAY + timedelta(days=number),
            machines[number - 1] if machines else "",
            is_pinned=number in pinned,
            is_accepted=number in accepted,
        )
        for number, value in enumerate(values, start=1)
    ]
    return judge_runs(observations, prior).judged_runs


def statuses(*values: float, **more) -> list[str]:  # type: ignore[no-untyped-def]
    return [each.status for each in history(*values, **more)]


def noisy(seed: int, *levels: tuple[int, float]) -> list[float]:
    """`count` runs at each level, varying by 2 %."""
    random = np.random.default_rng(seed)
    return [float(level * np.exp(random.normal(0, 0.02))) for n, level in levels for _ in range(n)]


def test_the_first_runs_record_a_baseline_and_then_only_a_difference():
    first, second, third, fourth = history(1.0, 5.0, 1.0, 9.0)
    assert (first.rung, first.baseline, first.change) == (BASELINE, (), None)
    assert (second.rung, second.status, second.direction) == (CAVEAT, OK, SAME)
    assert second.change == pytest.approx(4.0)
    assert third.rung == CAVEAT
    # Runs that vary as much as these let expect nearly everything.
    assert (fourth.rung, fourth.status, fourth.direction) == (LEVEL, OK, SAME)


def test_a_run_outside_of_what_its_level_lets_expect_is_called_by_its_direction():
    calm = CALM[:3]
    assert history(*calm, 1.10)[-1].direction == WORSE
    assert history(*calm, 0.90)[-1].direction == BETTER
    inside = history(*calm, 1.02)[-1]
    assert (inside.status, inside.baseline) == (OK, (1, 2, 3))
    assert inside.low is not None
    assert inside.high is not None
    assert inside.low < 0.99 < 1.01 < inside.high


@given(st.floats(0.96, 1.049))
def test_less_than_five_percent_is_never_called_however_sure(value):
    assert history(*[1.0] * 30, value)[-1].status == OK


some = st.lists(st.floats(0.5, 2), min_size=4, max_size=20)


@given(some, st.floats(0.001, 1000))
def test_verdicts_dont_depend_on_the_unit(values, factor):
    plain = history(*values)
    scaled = history(*[value * factor for value in values])
    for one, other in zip(plain, scaled, strict=True):
        assert (one.status, one.direction, one.since) == (
            other.status,
            other.direction,
            other.since,
        )
        assert other.expected == pytest.approx(one.expected and one.expected * factor)


@given(some)
def test_what_it_says_it_would_detect_it_calls(values):
    last = history(*values)[-1]
    assert last.expected is not None
    assert last.detects is not None
    if last.status == OK and len(last.baseline) > 2:
        assert history(*values[:-1], last.expected * (1 + last.detects) * 1.001)[-1].status != OK


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=60))
def test_every_run_gets_a_verdict_in_order_and_none_stays_suspected(seen):
    judged = history(*seen)
    assert [each.number for each in judged] == list(range(1, len(seen) + 1))
    for before, after in pairwise(judged):
        assert before.status != SUSPECTED or after.status == SUSPECTED
        if after.regression is not None:
            assert after.regression.since <= after.number
            assert after.regression.change > 0


def test_one_odd_run_is_cleared_by_the_next_and_two_confirm_each_other():
    calm = CALM[:4]
    assert statuses(*calm, 1.2, 1.0) == [OK] * 4 + [CLEARED, OK]
    assert statuses(*calm, 1.2) == [OK] * 4 + [SUSPECTED]
    assert statuses(*calm, 1.2, 1.21) == [OK] * 4 + [CONFIRMED, CONFIRMED]
    assert statuses(*calm, 1.2, 0.8) == [OK] * 4 + [CLEARED, SUSPECTED]
    confirmed = history(*calm, 1.2, 1.21)[-1]
    assert (confirmed.since, confirmed.direction) == (5, WORSE)


def test_two_odd_runs_that_differ_are_no_level_until_a_third():
    assert statuses(*CALM[:6], 1.2, 1.8) == [OK] * 6 + [SUSPECTED, SUSPECTED]
    assert statuses(*CALM[:6], 1.2, 1.8, 1.5)[-3:] == [CONFIRMED] * 3


def test_where_outliers_are_usual_it_takes_more_runs_of_their_size_to_be_a_level():
    spiked = [*CALM[:5], 1.3, *CALM[:3]]
    assert statuses(*spiked, 1.3, 1.3)[-2:] == [SUSPECTED, SUSPECTED]
    assert statuses(*spiked, 1.3, 1.3, 1.3)[-3:] == [CONFIRMED] * 3
    assert statuses(*spiked, 0.7, 0.7)[-2:] == [CONFIRMED] * 2


def test_a_regression_stays_open_at_its_level():
    judged = history(*CALM[:9], *[1.18] * 12)
    assert judged[-1].status == OPEN
    assert judged[-1].change == pytest.approx(0.18, abs=0.01)
    assert judged[-1].baseline == tuple(range(1, 10))
    regression = judged[-1].regression
    assert regression is not None
    assert (regression.since, regression.reference) == (10, tuple(range(1, 10)))
    assert judged[-1].since is None


def test_a_fix_is_recognised_at_its_first_run_and_ends_the_regression_by_the_second():
    judged = history(*CALM[:8], 1.15, 1.15, 1.0, 1.01)
    assert [each.status for each in judged[8:]] == [CONFIRMED] * 4
    assert (judged[10].direction, judged[10].is_back, judged[10].since) == (BETTER, True, 11)
    first_alone = history(*CALM[:8], 1.15, 1.15, 1.0)[-1]
    assert (first_alone.status, first_alone.is_back) == (SUSPECTED, True)
    assert judged[-1].ended is not None
    assert judged[-1].ended.since == 9
    assert judged[-1].regression is None
    after = history(*CALM[:8], 1.15, 1.15, 1.0, 1.01, 1.0)[-1]
    assert (after.status, len(after.baseline)) == (OK, 10)


def test_half_a_fix_leaves_the_regression_open_since_its_first_run():
    judged = history(*CALM[:8], *[1.4] * 4, *[1.2] * 4)
    assert judged[-1].status == OPEN
    assert judged[-1].regression is not None
    assert judged[-1].regression.since == 9
    assert judged[-1].regression.change == pytest.approx(0.2, abs=0.02)


def test_a_second_regression_adds_to_the_first():
    judged = history(*CALM[:8], *[1.2] * 4, *[1.5] * 4)
    assert judged[-1].regression is not None
    assert judged[-1].regression.since == 9
    assert judged[-1].regression.change == pytest.approx(0.5, abs=0.02)


def test_an_improvement_is_the_measure_from_its_second_run_on():
    early = history(1.0, 0.8, 0.81, 0.8, 0.79, 0.92)
    assert (early[-1].status, early[-1].direction) == (SUSPECTED, WORSE)
    assert early[-1].baseline == (2, 3, 4, 5)
    assert early[-1].detects is not None
    assert early[-1].detects < 0.12
    late = history(*CALM[:6], 0.7, 0.7, 0.7, 1.0, 1.0)
    assert late[-1].regression is not None
    assert late[-1].regression.since == 10


def test_an_accepted_level_is_the_new_measure():
    values = [*CALM[:8], *[1.2] * 6]
    assert statuses(*values, accepted=(12,))[-2:] == [OK, OK]
    judged = history(*values, 1.45, accepted=(12,))
    assert judged[11].regression is not None
    assert judged[12].regression is None
    assert judged[-1].status == SUSPECTED
    assert judged[-1].change == pytest.approx(0.21, abs=0.02)


def test_pinned_runs_are_the_baseline_alone():
    judged = history(*[1.0] * 3, *[2.0] * 5, pinned=(1, 2, 3))
    assert judged[-1].baseline == (1, 2, 3)
    assert (judged[-1].direction, judged[-1].change) == (WORSE, pytest.approx(1.0))


def test_an_odd_run_doesnt_blunt_the_history():
    spiked = history(*CALM[:4], 2.0, 1.0, 1.0)[-1].detects
    calm = history(*CALM[:4], 1.0, 1.0)[-1].detects
    assert spiked == pytest.approx(calm, rel=0.3)


@pytest.mark.parametrize("seed", range(4))
def test_a_small_step_that_no_single_run_showed_is_found_near_its_first_run(seed):
    judged = history(*noisy(seed, (20, 1.0), (20, 1.065)))
    crept = [each for each in judged if each.status == CONFIRMED]
    assert crept
    assert crept[0].direction == WORSE
    assert 17 <= (crept[0].since or 0) <= 25
    assert judged[-1].regression is not None


@pytest.mark.parametrize("seed", range(4))
def test_a_slow_drift_is_found(seed):
    """0.2 % a day: no run differs visibly from the one before."""
    values = [v * math.exp(0.002 * n) for n, v in enumerate(noisy(seed, (60, 1.0)))]
    judged = history(*values)
    assert any(each.status == CONFIRMED and each.direction == WORSE for each in judged)
    assert judged[-1].regression is not None


def test_a_few_quiet_or_noisy_runs_before_them_decide_what_counts():
    """The prior is what a workspace's other jobs vary by."""
    values = (1.0, 1.01, 0.99, 1.12)
    assert statuses(*values, prior=Prior(spread=0.02))[-1] == SUSPECTED
    assert statuses(*values, prior=Prior(spread=0.06))[-1] == OK


BOXES = ("a", "b", "a", "b", "slow", "a", "b", "a", "slow", "b", "a", "b", "a", "b", "slow", "a")


def test_a_slow_machine_is_no_regression_once_it_is_known():
    values = [1.09 if box == "slow" else 1.0 for box in BOXES]
    judged = history(*values, machines=BOXES)
    assert all(each.regression is None for each in judged)
    assert judged[14].status == OK
    later = history(*values, 1.09, 1.09, machines=(*BOXES, "a", "b"))
    assert later[-1].regression is not None


def test_two_runs_on_a_machine_never_seen_are_that_machine_and_no_regression():
    values, boxes = [1.0] * 8 + [1.2, 1.2, 1.2], ["a", "b"] * 4 + ["new"] * 3
    judged = history(*values, machines=tuple(boxes))
    assert [each.status for each in judged[8:]] == [CLEARED, CLEARED, OK]
    assert judged[8].new_machine == "new"


def test_machines_that_never_come_back_explain_nothing():
    """Each run may have a machine of its own in a cloud."""
    boxes = tuple(f"i-{n}" for n in range(10))
    judged = history(*[1.0] * 8, 1.2, 1.2, machines=boxes)
    assert judged[-1].status == CONFIRMED


@pytest.mark.parametrize("order", [0, 1, 2])
def test_a_verdict_depends_on_no_later_run_but_the_next_ones(order):
    """Runs that come later confirm or clear what was suspected, and change nothing else."""
    values = noisy(order, (10, 1.0), (6, 1.3), (8, 1.0), (6, 0.8))
    whole = history(*values)
    for count in range(4, len(values)):
        for before, after in zip(history(*values[:count]), whole, strict=False):
            if before.status != SUSPECTED:
                assert before == after


def test_verdicts_are_kept_in_the_database_by_these_names():
    assert (BASELINE, CAVEAT, LEVEL) == ("baseline", "caveat", "level")
    assert (BETTER, WORSE, SAME) == ("better", "worse", "same")
    kept = (OK, SUSPECTED, CONFIRMED, CLEARED, OPEN)
    assert kept == ("ok", "suspected", "confirmed", "cleared", "open")


@given(st.lists(st.floats(0.8, 1.3), min_size=4, max_size=60))
def test_only_a_regression_that_was_open_can_end(values):
    judged = history(*values)
    for before, after in pairwise(judged):
        if after.ended is not None:
            assert before.regression is not None
            assert after.regression is None
