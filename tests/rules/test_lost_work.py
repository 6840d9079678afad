"""`lost_work`: steps that were done again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rules.frame import RunFrame
from rules.step_ranges import RESUMED, StepRange
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.restarted import gpu_node, restore, told
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.restarts import Failure, fails
from tests.rules.scenarios.world import World

RULE = "lost_work"


def resumed(after: int | None, steps: int = 400) -> RunFrame:
    """Return a run with `steps` of a second each, after which a checkpoint of step `after` is
    loaded.
    """
    events = [*told((1, 1)), *restore(steps + 50, 20, after)]
    node = gpu_node(f.steps(steps), f.steps(900 - steps, start=steps + 60), events=events)
    return f.run(node, duration=1000)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(resumed(300), "fired", id="100 of 400 s"),
        pytest.param(resumed(361), "passed", id="39 s are below a minute"),
        pytest.param(resumed(400), "passed", id="nothing"),
        pytest.param(resumed(None), "insufficient_data", id="resumed at an unknown step"),
        pytest.param(f.run(gpu_node(f.steps(900)), duration=1000), "passed", id="one process"),
        pytest.param(f.run(gpu_node()), "insufficient_data", id="no steps"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_a_share_of_the_held_time_is_what_counts() -> None:
    values = {"share_pct": 11.0}
    assert judged(RULE, resumed(300), values).verdict.state == "passed"
    assert judged(RULE, resumed(280), values).verdict.state == "fired"


def test_the_steps_of_later_runs_of_the_training_take_work_back() -> None:
    first = f.run(gpu_node(f.steps(900), events=told((1, 1))), duration=1000)
    assert judged(RULE, first).verdict.state == "passed"
    resumes = StepRange(2_000_000_000, 2_010_000_000, first=701, last=710, begins=RESUMED)
    verdict = judged(RULE, replace(first, other_steps=(resumes,))).verdict
    assert verdict.state == "fired"
    assert verdict.claimed_seconds_high == pytest.approx(200, abs=1)


def set_up(world: World, factor: float) -> None:
    """Lose 5 % of the run, in one or several failures."""
    count = int(world.random.integers(1, 3))
    lost = 0.05 * factor * world.seconds / count
    times = [(n + 1) * world.seconds / (count + 1) for n in range(count)]
    fails(world, [Failure(at, lost, 20.0) for at in times])


SCENARIO = Scenario(RULE, set_up, (*confounders.CALM, *confounders.DATA, *confounders.ANYWHERE))
