"""A sample of the labelled runs: every rule is right about its own, and none lacks them."""

from __future__ import annotations

import pytest

from bench.rules_scenarios import LEAST, judge_labelled_runs
from rules.engine import evaluate
from rules.registry import all_rules
from tests.rules.scenarios.labelled import Scenario, labelled, score
from tests.rules.scenarios.registry import NEVER_FIRES, SCENARIOS

SEED, COUNT = 20260301, 8


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.rule_id)
def test_it_fires_beyond_its_threshold_and_not_below(scenario: Scenario) -> None:
    runs, fired = judge_labelled_runs(scenario, SEED, COUNT)
    scored = score(runs, fired)
    assert (scored.positives, scored.near_misses) == (COUNT, COUNT)
    assert scored.precision >= LEAST
    assert scored.recall >= LEAST


def test_every_rule_has_labelled_runs_or_says_that_it_never_fires() -> None:
    assert sorted([*(s.rule_id for s in SCENARIOS), *NEVER_FIRES]) == list(all_rules())


@pytest.mark.parametrize("rule_id", NEVER_FIRES)
def test_the_overviews_never_fire(rule_id: str) -> None:
    runs = [run for scenario in SCENARIOS for run in labelled(scenario, SEED, 1)]
    rule = all_rules()[rule_id]
    assert {evaluate(run.frame, {}, [rule])[0].verdict.state for run in runs} <= {
        "passed",
        "insufficient_data",
    }


def test_the_same_seed_gives_the_same_runs_and_another_one_others() -> None:
    first, again = (next(labelled(SCENARIOS[0], SEED, 1)).frame for _ in range(2))
    assert first.nodes["n1"].samples.equals(again.nodes["n1"].samples)
    other = next(labelled(SCENARIOS[0], SEED + 1, 1)).frame
    assert not first.nodes["n1"].samples.equals(other.nodes["n1"].samples)
