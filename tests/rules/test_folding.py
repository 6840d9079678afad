"""One cause is told once, and a run's findings never count more than the run."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.engine import evaluate
from rules.folding import Place, places
from rules.registry import all_rules
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario, labelled
from tests.rules.scenarios.registry import SCENARIOS
from tests.rules.scenarios.world import Node, World

RULES = list(all_rules())


@given(
    st.dictionaries(st.sampled_from(RULES), st.floats(0, 4000)),
    st.floats(0, 4000),
)
def test_the_waste_that_counts_is_at_most_the_run(waste: dict[str, float], run: float) -> None:
    waste = {rule: min(seconds, run) for rule, seconds in waste.items()}
    placed = places(waste, run)
    assert placed.keys() == waste.keys()
    assert all(0 <= place.counted_share <= 1 for place in placed.values())
    counted = sum(waste[rule] * place.counted_share for rule, place in placed.items())
    assert counted <= run * (1 + 1e-9)
    for place in placed.values():
        if place.explained_by:
            assert place.counted_share == 0
            assert placed[place.explained_by].explained_by == "", "folded under a cause"


def test_causes_count_in_full_if_they_fit_into_the_run_else_in_proportion() -> None:
    waste = {"no_progress": 500.0, "evaluation_share": 300.0, "epoch_gaps": 400.0}
    assert {place.counted_share for place in places(waste, 1200.0).values()} == {1.0}
    shares = [place.counted_share for place in places(waste, 1000.0).values()]
    assert shares == pytest.approx([5 / 6] * 3)


@pytest.mark.parametrize(
    ("child", "cause"),
    [
        ("low_gpu_utilization", "input_bound"),
        ("low_gpu_utilization", "unused_gpus"),
        ("batch_size", "input_bound"),
        ("dataloader", "input_bound"),
        ("max_initialization_time", "startup_breakdown"),
    ],
)
def test_what_another_finding_explains_is_folded_under_it(child: str, cause: str) -> None:
    placed = places({child: 190.0, cause: 100.0}, 1000.0)
    assert placed == {child: Place(cause, 0.0), cause: Place("", 1.0)}


def test_what_is_explained_in_small_part_stays_a_cause_without_that_part() -> None:
    placed = places({"low_gpu_utilization": 500.0, "input_bound": 100.0}, 1000.0)
    assert placed["low_gpu_utilization"] == Place("", pytest.approx(0.8))
    assert placed["input_bound"] == Place("", 1.0)


def test_a_chain_is_folded_under_its_first_cause() -> None:
    placed = places({"io_bottleneck": 80.0, "batch_size": 90.0, "low_gpu_utilization": 60.0}, 1e3)
    assert {placed[r].explained_by for r in ("batch_size", "low_gpu_utilization")} == {
        "io_bottleneck"
    }


def test_rules_explain_each_other_in_one_direction() -> None:
    for rule in all_rules().values():
        reached, waiting = set(), list(rule.explained_by)
        while waiting:
            other = waiting.pop()
            assert other != rule.id
            if other not in reached:
                reached.add(other)
                waiting += all_rules()[other].explained_by


def test_waiting_for_data_explains_the_idle_gpu_and_the_room_in_the_batch() -> None:
    def waits(world: World, factor: float) -> None:
        world.wait_share, world.gpu_pct, world.gpu_memory_pct = 0.5, 45.0, 30.0
        world.cpu_pct = 20.0

    run = next(iter(labelled(Scenario("input_bound", waits, (confounders.slow_start,)), 3, 1)))
    fired = {j.rule_id: j.verdict for j in evaluate(run.frame, {}) if j.verdict.state == "fired"}
    assert {"input_bound", "low_gpu_utilization", "batch_size"} <= fired.keys()
    waste = {rule: verdict.waste_seconds_high for rule, verdict in fired.items()}
    placed = places(waste, run.frame.duration_seconds)
    assert placed["low_gpu_utilization"].explained_by == "input_bound"
    assert placed["batch_size"].explained_by == "input_bound"


def test_outliers_that_are_waits_for_data_are_told_by_input_bound_alone() -> None:
    def waits(world: World, factor: float) -> None:
        def change(node: Node) -> None:
            slow = world.random.choice(len(node.steps), len(node.steps) // 25, replace=False)
            longer = node.steps["duration_seconds"].to_numpy(copy=True)
            waited = node.steps["data_wait_seconds"].to_numpy(copy=True)
            waited[slow] += 9 * longer[slow]
            longer[slow] *= 10
            starts = world.begin_seconds + longer.cumsum() - longer
            columns = {"duration_seconds": longer, "data_wait_seconds": waited}
            node.steps = node.steps.assign(start_seconds=starts, **columns)

        world.changes.append(change)

    run = next(iter(labelled(Scenario("input_bound", waits, (confounders.slow_start,)), 3, 1)))
    fired = {j.rule_id for j in evaluate(run.frame, {}) if j.verdict.state == "fired"}
    assert "input_bound" in fired
    assert "step_outlier" not in fired


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda each: each.rule_id)
def test_the_findings_of_every_scenario_count_at_most_the_run(scenario: Scenario) -> None:
    run = next(iter(labelled(scenario, 8, 1)))
    judged = {j.rule_id: j.verdict for j in evaluate(run.frame, {})}
    waste = {r: v.waste_seconds_high for r, v in judged.items() if v.state == "fired"}
    placed = places(waste, run.frame.duration_seconds)
    counted = sum(waste[rule] * place.counted_share for rule, place in placed.items())
    assert counted <= run.frame.duration_seconds * (1 + 1e-9)
