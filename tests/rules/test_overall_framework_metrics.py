"""`overall_framework_metrics`: where the loop's time went, that between steps included."""

from __future__ import annotations

import pytest

from tests.rules import frames as f
from tests.rules.cases import judged

RULE = "overall_framework_metrics"
SCENARIO = None
"""The rule never fires: it is an overview."""


def test_the_time_between_steps_is_all_of_it_and_not_half() -> None:
    spaced = f.steps(100).assign(start_seconds=lambda t: 2.0 * t.index)
    numbers = judged(RULE, f.run(f.node(step_tables=[spaced]))).numbers
    # 100 steps of a second, and 99 seconds between them.
    assert numbers.values["others_seconds"] == pytest.approx(99)
    assert numbers.values["train_seconds"] == pytest.approx(100)


def test_it_names_each_phase_and_remarks_on_much_time_between_steps() -> None:
    table = [f.steps(60), f.steps(20, start=60, phase="evaluate"), f.steps(20, start=150)]
    verdict = judged(RULE, f.run(f.node(step_tables=table))).verdict
    assert verdict.state == "passed"
    assert "11.8 % in evaluate steps" in verdict.summary
    assert "47.1 % in train steps" in verdict.summary
    assert verdict.summary.endswith("41.2 % between steps (a large share).")


def test_ranks_are_averaged_and_not_added_up() -> None:
    ranks = f.node(step_tables=[f.steps(100, rank=rank) for rank in range(4)])
    numbers = judged(RULE, f.run(ranks)).numbers
    assert numbers.values["train_seconds"] == pytest.approx(100)
    assert numbers.values["others_seconds"] == pytest.approx(0)


def test_without_steps_it_says_what_is_missing() -> None:
    verdict = judged(RULE, f.run(f.node())).verdict
    assert verdict.state == "insufficient_data"
    assert "steps" in verdict.summary
