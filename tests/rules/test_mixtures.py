"""The most expensive of several causes comes first, and none claims another's time."""

from __future__ import annotations

import pytest

from bench.rules_scenarios import MOST_OVERCLAIM, judge_mixture
from rules.registry import all_rules
from tests.rules.scenarios.mixtures import FIRED_BY, mixture

COUNT, MOST_WRONG = 40, 4
"""The number of mixtures, and of wrong ones: so few that chance counts. `bench.rules_scenarios`
judges 300 by the promise."""
SEEDS = range(20_000, 20_000 + COUNT)


@pytest.fixture(scope="module")
def judged():  # type: ignore[no-untyped-def]
    return [judge_mixture(seed) for seed in SEEDS]


def test_the_most_expensive_cause_comes_first(judged) -> None:  # type: ignore[no-untyped-def]
    wrong = [each.words for each in judged if not each.is_costliest_first]
    assert len(wrong) <= MOST_WRONG, "\n".join(wrong)


def test_the_first_advice_is_on_the_most_expensive_cause(judged) -> None:  # type: ignore[no-untyped-def]
    wrong = [each.words for each in judged if each.is_advised_first is False]
    assert len(wrong) <= MOST_WRONG, "\n".join(wrong)


def test_no_label_is_claimed_beyond_its_time(judged) -> None:  # type: ignore[no-untyped-def]
    assert all(each.is_within_labels for each in judged)


def test_findings_hardly_ever_show_more_than_was_wasted(judged) -> None:  # type: ignore[no-untyped-def]
    beyond = [each.words for each in judged if each.overclaim > MOST_OVERCLAIM]
    assert len(beyond) <= MOST_WRONG, "\n".join(beyond)


def test_the_mixtures_are_short_and_long_with_gpus_and_without() -> None:
    made = [mixture(seed) for seed in SEEDS]
    lengths = [frame.duration_seconds for frame, _ in made]
    assert min(lengths) < 60 < 3600 < max(lengths)
    assert {any(n.hardware.gpus for n in frame.nodes.values()) for frame, _ in made} == {
        True,
        False,
    }
    assert {cause for _, truth in made for cause in truth} == FIRED_BY.keys()
    assert {rule for rules in FIRED_BY.values() for rule in rules} <= all_rules().keys()
