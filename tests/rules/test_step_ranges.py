"""The steps of a training that count: any split into attempts, and any order of arrival."""

from __future__ import annotations

import random
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from rules.step_ranges import (
    CONTINUED,
    NEW,
    RESUMED,
    CountedSteps,
    StepRange,
    count_distinct_steps,
    lost_count,
    select_counted_steps,
)
from tests.rules.test_properties import QUICK


def made(*spans: tuple[int, int, int, str]) -> list[StepRange]:
    """Return ranges of (start in s, first, last, begins): a step a second."""
    return [
        StepRange(at * 10**6, (at + last - first + 1) * 10**6, first, last, begins)
        for at, first, last, begins in spans
    ]


def lasts(ranges: list[StepRange]) -> list[int]:
    return [each.last for each in select_counted_steps(ranges)]


def test_steps_after_the_checkpoint_were_lost() -> None:
    assert lasts(made((0, 1, 100, RESUMED), (200, 81, 150, RESUMED))) == [80, 150]


def test_a_restart_from_scratch_loses_everything() -> None:
    assert lasts(made((0, 1, 100, RESUMED), (200, 1, 150, RESUMED))) == [0, 150]


def test_the_earliest_number_that_comes_again_counts() -> None:
    thrice = made((0, 1, 100, RESUMED), (200, 81, 90, RESUMED), (300, 51, 200, RESUMED))
    assert lasts(thrice) == [50, 80, 200]


def test_a_second_model_of_the_same_script_loses_nothing() -> None:
    assert lasts(made((0, 1, 100, RESUMED), (100, 1, 100, NEW))) == [100, 100]


def test_a_restart_takes_nothing_back_from_before_a_new_count() -> None:
    folds = made((0, 1, 100, RESUMED), (100, 1, 100, NEW), (300, 51, 100, RESUMED))
    assert lasts(folds) == [100, 50, 100]


def test_two_nodes_that_make_the_same_steps_lose_none() -> None:
    both = made((0, 1, 100, RESUMED), (1, 1, 100, RESUMED))
    assert lasts(both) == [100, 100]
    assert count_distinct_steps(both, select_counted_steps(both)) == 100
    restarted = [*both, *made((200, 61, 80, RESUMED), (200, 61, 80, RESUMED))]
    assert lost_count(restarted, select_counted_steps(restarted)) == 40


def test_a_jump_forward_loses_nothing() -> None:
    assert lasts(made((0, 1, 100, RESUMED), (100, 151, 200, CONTINUED))) == [100, 200]


def test_where_a_counted_range_resumed_is_unknown() -> None:
    first, second = made((0, 1, 100, RESUMED), (200, 1, 50, RESUMED))
    counted = StepRange(**{**vars(second), "is_counted": True})
    assert select_counted_steps([first, counted]) == [
        CountedSteps(100),
        CountedSteps(50, is_known=False),
    ]
    assert select_counted_steps([StepRange(**{**vars(first), "is_counted": True})]) == [
        CountedSteps(100)
    ]


@dataclass(frozen=True)
class Attempt:
    """Resumes after `first - 1` steps and makes `count`."""

    first: int
    count: int


@st.composite
def trainings(draw: st.DrawFn) -> list[Attempt]:
    """Draw attempts that each resume at a step that was reached before."""
    attempts, reached = [], 0
    for _ in range(draw(st.integers(1, 6))):
        attempt = Attempt(draw(st.integers(0, reached)) + 1, draw(st.integers(1, 40)))
        attempts.append(attempt)
        reached = attempt.first + attempt.count - 1
    return attempts


def ranges_of(attempts: list[Attempt], cuts: frozenset[int] = frozenset()) -> list[StepRange]:
    """Return one range per attempt, and cut into two where a cut falls."""
    ranges, now = [], 0
    for attempt in attempts:
        begin = attempt.first
        for number in range(attempt.first, attempt.first + attempt.count):
            at = now + number - attempt.first
            if at + 1 in cuts or number == attempt.first + attempt.count - 1:
                start = now + begin - attempt.first
                ranges.append(StepRange(start * 10**6, (at + 1) * 10**6, begin, number, RESUMED))
                begin = number + 1
        now += attempt.count + 7
    return ranges


def lost_of(ranges: list[StepRange]) -> list[tuple[int, int]]:
    """Return the start (in s) and number of each lost step."""
    pairs = zip(ranges, select_counted_steps(ranges), strict=True)
    return sorted(
        (each.began_us // 10**6 + number - each.first, number)
        for each, counted in pairs
        for number in range(counted.last + 1, each.last + 1)
    )


def lost_one_by_one(attempts: list[Attempt]) -> list[tuple[int, int]]:
    """Return lost steps one by one: a step is lost if its number comes again later."""
    steps, now = [], 0
    for attempt in attempts:
        steps += [(now + n, attempt.first + n) for n in range(attempt.count)]
        now += attempt.count + 7
    return sorted(
        (at, n) for at, n in steps if any(a2 > at and f2 <= n for a2, f2 in _begins(attempts))
    )


def _begins(attempts: list[Attempt]) -> list[tuple[int, int]]:
    found, now = [], 0
    for attempt in attempts:
        found.append((now, attempt.first))
        now += attempt.count + 7
    return found


CUTS = st.frozensets(st.integers(1, 200), max_size=4)


@given(attempts=trainings(), cuts=CUTS, seed=st.integers())
@QUICK
def test_any_split_and_any_order_lose_the_same_steps(
    attempts: list[Attempt], cuts: frozenset[int], seed: int
) -> None:
    """A walk over the single steps finds the same."""
    split = ranges_of(attempts, cuts)
    random.Random(seed).shuffle(split)
    assert lost_of(split) == lost_of(ranges_of(attempts)) == lost_one_by_one(attempts)
    last = attempts[-1]
    assert count_distinct_steps(split, select_counted_steps(split)) == last.first + last.count - 1
    assert lost_count(split, select_counted_steps(split)) == len(lost_of(split))
