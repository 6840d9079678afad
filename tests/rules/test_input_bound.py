"""`input_bound`: when waiting for data is a finding, and when it isn't."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rules.frame import NodeFrame, RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import World

RULE = "input_bound"


def training(wait: float, count: int = 101, **more: Any) -> NodeFrame:
    return f.node(step_tables=[f.steps(count, wait=wait, **more)])


FIRST_STEP_SLOW = f.node(step_tables=[f.steps(1, duration=500, wait=1), f.steps(100, start=500)])
EVALUATION_WAITS = f.node(
    step_tables=[f.steps(101), f.steps(900, wait=0.9, start=101, phase="evaluate")]
)
HALF_MEASURED = f.node(
    step_tables=[f.steps(51, wait=0.2), f.steps(50, wait=f.GAP, start=51)],
)
HARDLY_MEASURED = f.node(
    step_tables=[f.steps(31, wait=0.9), f.steps(70, wait=f.GAP, start=31)],
)
GPUS_UNKNOWN = f.node(
    step_tables=[f.steps(101, wait=0.4)],
    series=f.samples(600, gpu0__busy_pct=f.GAP),
    of=f.hardware(gpus=1),
)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(f.run(training(0.4)), "fired", id="waits"),
        pytest.param(f.run(training(0.02)), "passed", id="hardly waits"),
        pytest.param(f.run(training(0.15)), "fired", id="at the boundary"),
        pytest.param(f.run(training(0.1499)), "passed", id="just below the boundary"),
        pytest.param(
            f.run(training(0.4, count=3, duration=10)), "insufficient_data", id="one step too few"
        ),
        pytest.param(f.run(training(0.4, count=4, duration=10)), "fired", id="just enough steps"),
        pytest.param(
            f.run(training(0.4, duration=0.04)), "insufficient_data", id="many steps, few seconds"
        ),
        pytest.param(
            f.run(training(0.4, count=13), duration=60), "passed", id="a wait of less than 5 s"
        ),
        pytest.param(
            f.run(training(0.4, count=14), duration=60), "fired", id="a wait of more than 5 s"
        ),
        pytest.param(f.run(training(f.GAP)), "insufficient_data", id="wait not measured"),
        pytest.param(f.run(HARDLY_MEASURED), "insufficient_data", id="wait measured for 30 %"),
        pytest.param(f.run(HALF_MEASURED), "fired", id="wait measured for half"),
        pytest.param(f.run(), "insufficient_data", id="nothing at all"),
        pytest.param(f.run(f.node()), "insufficient_data", id="a node without steps"),
        pytest.param(f.run(FIRST_STEP_SLOW), "passed", id="only the first step waits"),
        pytest.param(f.run(EVALUATION_WAITS), "passed", id="only evaluation waits"),
        pytest.param(f.run(GPUS_UNKNOWN), "fired", id="waits, GPU use unknown"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


@pytest.mark.parametrize(("wait", "severity"), [(0.2, "medium"), (0.3, "high"), (0.8, "high")])
def test_it_is_severe_from_the_high_share_on(wait: float, severity: str) -> None:
    assert judged(RULE, f.run(training(wait))).verdict.severity == severity


def test_it_remarks_on_a_wait_that_is_worth_a_look() -> None:
    assert "Worth a look" in judged(RULE, f.run(training(0.08))).verdict.summary
    assert "Worth a look" not in judged(RULE, f.run(training(0.03))).verdict.summary


def test_it_says_how_to_measure_a_wait_that_nobody_measured() -> None:
    verdict = judged(RULE, f.run(training(f.GAP))).verdict
    assert "trimtab.wrap(loader)" in verdict.summary


def test_it_puts_the_waste_at_six_to_nine_tenths_of_the_wait_of_one_rank() -> None:
    ranks = f.node(step_tables=[f.steps(101, wait=0.4, rank=rank) for rank in range(4)])
    verdict = judged(RULE, f.run(ranks)).verdict
    assert verdict.claimed_seconds_low == pytest.approx(0.6 * 40)
    assert verdict.claimed_seconds_high == pytest.approx(0.9 * 40)


def test_it_weighs_a_row_of_many_steps_by_their_number() -> None:
    single, many = f.steps(2, wait=0.0), f.steps(1, wait=0.5, start=2).assign(count=99)
    numbers = judged(RULE, f.run(f.node(step_tables=[single, many]))).numbers
    assert numbers.values["wait_share_pct"] == pytest.approx(49.5)
    assert numbers.values["steps_count"] == 100


def test_it_joins_both_nodes_and_shows_where_each_waited() -> None:
    calm = f.node("calm", step_tables=[f.steps(101)])
    late = f.steps(50, wait=0.9, start=51)
    busy = f.node("busy", step_tables=[f.steps(51), late])
    judgement = judged(RULE, f.run(calm, busy))
    assert judgement.verdict.state == "fired"
    assert judgement.numbers.values["wait_share_pct"] == pytest.approx(22.5)
    [window] = judgement.numbers.windows
    assert window.entity == "busy"
    assert 41 <= window.start_seconds <= 51
    assert window.end_seconds == pytest.approx(101)


def test_it_lowers_the_waste_where_busy_gpus_hide_the_wait() -> None:
    gpus_busy = f.node(
        step_tables=[f.steps(101, wait=0.4)],
        series=f.samples(101, gpu0__busy_pct=95.0),
        of=f.hardware(gpus=1),
    )
    verdict = judged(RULE, f.run(gpus_busy, duration=101.0)).verdict
    assert verdict.claimed_seconds_low == pytest.approx(5.0)
    assert "busy for 95 %" in verdict.summary


def test_it_does_not_advise_more_workers_where_every_core_is_full() -> None:
    table = [f.steps(101, wait=0.4)]
    full = f.node(step_tables=table, series=f.samples(101, host__cpu_busy_pct=98.0))
    idle = f.node(step_tables=table, series=f.samples(101, host__cpu_busy_pct=50.0))
    assert "parallel workers" not in judged(RULE, f.run(full)).verdict.advice
    assert "parallel workers" in judged(RULE, f.run(idle)).verdict.advice
    used = {"tree__cpu_seconds_total": 0.5 * np.arange(101), "host__cpu_busy_pct": 98.0}
    sleeps_beside_others = f.node(step_tables=table, series=f.samples(101, **used))
    assert "parallel workers" in judged(RULE, f.run(sleeps_beside_others)).verdict.advice


def test_it_names_the_loader_workers_that_the_loop_declared() -> None:
    declared = f.node(
        step_tables=[f.steps(101, wait=0.4)], events=[(0.0, "loader", {"workers": 2})]
    )
    assert "now 2 loader workers" in judged(RULE, f.run(declared)).verdict.advice


def test_loaders_that_only_evaluate_say_nothing_of_the_training() -> None:
    events = [
        (0.0, "loader", {"workers": 1, "phase": "train"}),
        (0.0, "loader", {"workers": 8, "phase": "evaluate"}),
    ]
    declared = f.node(step_tables=[f.steps(101, wait=0.4)], events=events)
    assert "now 1 loader worker)" in judged(RULE, f.run(declared)).verdict.advice


def test_it_follows_the_parameters_of_the_workspace() -> None:
    frame = f.run(training(0.1))
    assert judged(RULE, frame, {"fire_share_pct": 8}).verdict.state == "fired"


def set_up(world: World, factor: float) -> None:
    """Wait for data for 15 % of the step time."""
    world.wait_share = 0.15 * factor
    world.gpu_pct = 90 * (1 - world.wait_share)


SCENARIO = Scenario(RULE, set_up, (*confounders.ON_GPU, *confounders.ANYWHERE))


def beside_neighbours(sleeps: float, decodes: float, computes: float, resolution: float) -> Any:
    """Judge a loop of 600 steps that, without neighbours, take so many seconds each. Its thread
    waits for a core for as long as it has one.
    """
    works = decodes + computes
    each = sleeps + 2 * works
    length = 600 * each
    grown = np.arange(round(length / resolution)) * resolution * works / each
    table = f.samples(
        length,
        resolution,
        tree__cpu_seconds_total=grown,
        tree__run_delay_seconds_total=grown,
        tree__starved_seconds_total=grown,
    )
    steps = f.steps(600, duration=each, wait=(sleeps + 2 * decodes) / each)
    node = f.node(series=table, step_tables=[steps])
    return judged(RULE, f.run(node, duration=length, resolution=resolution)).verdict


@pytest.mark.parametrize("resolution", [0.5, 1.0, 10.0])
@pytest.mark.parametrize(
    ("sleeps", "decodes", "computes", "state", "share"),
    [
        pytest.param(0.2, 0.0, 0.8, "fired", 20, id="sleeps, 11 % of the clock's time"),
        pytest.param(0.1, 0.0, 0.9, "passed", 10, id="sleeps too little"),
        pytest.param(0.0, 0.2, 0.8, "fired", 20, id="decodes"),
        pytest.param(0.0, 0.12, 0.88, "passed", 12, id="decodes too little"),
        pytest.param(0.12, 0.0, 0.0, "fired", 100, id="sleeps alone"),
        pytest.param(0.1, 0.1, 0.8, "fired", 20, id="both"),
    ],
)
def test_neighbours_neither_hide_a_wait_nor_make_one(
    sleeps: float, decodes: float, computes: float, state: str, share: float, resolution: float
) -> None:
    verdict = beside_neighbours(sleeps, decodes, computes, resolution)
    assert verdict.state == state
    assert float(verdict.summary.split(" % of ")[0].rsplit(" ", 1)[1]) == pytest.approx(
        share, abs=1.5
    )


def test_it_says_what_neighbours_took() -> None:
    said = beside_neighbours(0.2, 0.0, 0.8, 1.0).summary
    assert "without 7 m 59 s in which it waited for a core" in said
