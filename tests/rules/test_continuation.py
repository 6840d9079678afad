"""A run that continues another one is told from one that starts from its result."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.continuation import GOES_ON, Progress, progress, why_not
from rules.step_ranges import NEW, RESUMED, StepRange
from tests.rules.test_properties import QUICK

EARLIER = Progress(0, 480, 480, is_finished=False)
LATER = Progress(240, 540, 1000, is_finished=True)
LOADED_US = 600
FINISHED = replace(EARLIER, is_finished=True)


def test_a_run_goes_on_after_one_that_was_interrupted() -> None:
    assert why_not(LATER, LOADED_US, EARLIER) == GOES_ON


@pytest.mark.parametrize(
    ("later", "earlier", "reason"),
    [
        (replace(LATER, resumed_at=0), EARLIER, "begin at 1"),
        (replace(LATER, resumed_at=481), EARLIER, "don't follow"),
        (LATER, replace(EARLIER, resumed_at=300), "don't follow"),
        (LATER, None, "unknown"),
        (None, EARLIER, "unknown"),
        (LATER, FINISHED, "a finished run has made"),
        (replace(LATER, resumed_at=480), replace(FINISHED, reached_plan=True), "was to do"),
        (LATER, replace(EARLIER, ended_us=601), "still at work"),
    ],
)
def test_other_loads_are_no_continuation(
    later: Progress | None, earlier: Progress | None, reason: str
) -> None:
    assert reason in why_not(later, LOADED_US, earlier)


def test_jobs_that_end_in_time_and_are_chained_go_on() -> None:
    """Each ends by itself, at the last step that it saved."""
    assert why_not(replace(LATER, resumed_at=480), LOADED_US, FINISHED) == GOES_ON


def test_a_second_branch_from_one_checkpoint_takes_no_finished_work_back() -> None:
    first = Progress(240, 400, 590, is_finished=True)
    assert "a finished run has made" in why_not(LATER, LOADED_US, EARLIER, [first])
    crashed = replace(first, is_finished=False)
    assert why_not(LATER, LOADED_US, EARLIER, [crashed]) == GOES_ON
    at_work = replace(crashed, ended_us=900)
    assert "still at work" in why_not(LATER, LOADED_US, EARLIER, [at_work])


def test_what_is_known_of_a_run_that_was_restarted_itself() -> None:
    ranges = [StepRange(50, 90, 21, 60, RESUMED), StepRange(0, 30, 1, 30, RESUMED)]
    found = progress(ranges, is_finished=False, reached_plan=True)
    assert found == Progress(0, 60, 90, is_finished=False, reached_plan=False)
    assert progress([], is_finished=True, reached_plan=False) is None
    again = [StepRange(0, 100, 1, 100, RESUMED), StepRange(100, 150, 1, 50, NEW)]
    assert progress(again, is_finished=True, reached_plan=False).last == 100  # type: ignore[union-attr]


MANY = st.builds(
    Progress,
    st.integers(0, 9),
    st.integers(0, 9),
    st.integers(0, 9),
    st.booleans(),
    st.booleans(),
)


@given(later=MANY, earlier=MANY, others=st.lists(MANY, max_size=4), loaded_us=st.integers(0, 9))
@QUICK
def test_no_continuation_takes_finished_work_back(
    later: Progress, earlier: Progress, others: list[Progress], loaded_us: int
) -> None:
    """The others may be named in any order."""
    told = why_not(later, loaded_us, earlier, others)
    assert told == why_not(later, loaded_us, earlier, others[::-1])
    if told == GOES_ON:
        finished = [each.last for each in (earlier, *others) if each.is_finished]
        assert later.resumed_at >= max(finished, default=1)
