"""`restart_loop`: starts that fail again and again without getting further."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rules.frame import RunFrame
from rules.step_ranges import RESUMED, StepRange
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.restarted import ended, gpu_node, restore, told
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.restarts import Failure, fails
from tests.rules.scenarios.world import World

RULE = "restart_loop"
S = 1_000_000


def starts(*reached: tuple[int, int | None], codes: tuple[int, ...] = (1,)) -> RunFrame:
    """Return starts, each on a machine of its own for 400 s: from and to which step, (0, 0): no
    step.
    """
    nodes = []
    for number, (first, last) in enumerate(reached):
        at = 500.0 * number
        events = [ended(at + 400, exit_code=codes[number % len(codes)])]
        tables = []
        if last is None:
            tables = [f.steps(100, start=at + 50)]
            events += restore(at + 40, 20, None)
        elif last:
            tables = [f.steps(last - first, start=at + 50)]
            events += told((at + 50.0005, first + 1)) if not number else restore(at + 40, 20, first)
        nodes.append(gpu_node(*tables, key=f"n{number}", held=(at, at + 400), events=events))
    return f.run(*nodes, duration=500.0 * len(reached))


def dying(count: int, seconds: float) -> RunFrame:
    """Make starts without any step and without the hook."""
    nodes = [
        gpu_node(
            key=f"n{n}", held=(n * 1000, n * 1000 + seconds), events=[ended(n * 1000 + seconds)]
        )
        for n in range(count)
    ]
    return f.run(*nodes, duration=1000.0 * count)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(starts((0, 100), (50, 100), (50, 100)), "fired", id="at the same step"),
        pytest.param(starts((0, 100), (50, 100)), "passed", id="twice"),
        pytest.param(starts((0, 100), (50, 150), (100, 200)), "passed", id="it gets further"),
        pytest.param(starts((0, 300), (50, 300), (50, 303)), "fired", id="by 1 %"),
        pytest.param(starts((0, 300), (50, 300), (50, 304)), "passed", id="by more"),
        pytest.param(starts((0, 100), (50, 90), (0, 80)), "fired", id="earlier each time"),
        pytest.param(starts((0, 100), (0, 0), (0, 0)), "fired", id="then not a step"),
        pytest.param(
            starts((0, 100), (50, 100), (50, 100), codes=(1, 124)), "passed", id="other causes"
        ),
        pytest.param(
            starts((0, 100), (0, None), (0, None)), "insufficient_data", id="unknown steps"
        ),
        pytest.param(dying(3, 200), "fired", id="short, without a step"),
        pytest.param(dying(3, 600), "insufficient_data", id="nobody counts the steps"),
        pytest.param(f.run(gpu_node(f.steps(900)), duration=1000), "passed", id="one start"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_the_first_start_is_no_waste_and_the_second_may_be_none() -> None:
    verdict = judged(RULE, starts((0, 100), (50, 100), (50, 100), (50, 100))).verdict
    # Of 2000 s, the machines were held for 1600 s.
    assert verdict.claimed_seconds_high == pytest.approx(2000 * 1200 / 1600)
    assert verdict.claimed_seconds_low == pytest.approx(2000 * 800 / 1600)
    assert "step 100" in verdict.summary


def test_earlier_runs_of_the_training_count_as_starts() -> None:
    run = starts((50, 100))
    ranges = [StepRange(-n * 1000 * S, (-n * 1000 + 50) * S, 51, 100, RESUMED) for n in (3, 2, 1)]
    assert judged(RULE, run).verdict.state == "passed"
    assert judged(RULE, replace(run, other_steps=tuple(ranges))).verdict.state == "fired"
    further = [replace(each, last=100 - n * 20) for n, each in enumerate(reversed(ranges))]
    assert judged(RULE, replace(run, other_steps=tuple(further))).verdict.state == "passed"


def set_up(world: World, factor: float) -> None:
    """Fail three times at the same step, in one run; in a near miss twice, or three times but
    further on.
    """
    is_loop = factor > 1
    gets_on = not is_loop and world.random.random() < 0.5
    count = math.ceil(3 * factor) if is_loop else 3 if gets_on else 2
    first, each = 0.3 * world.seconds, 0.6 * world.seconds / count
    share = 0.5 if gets_on else 1.0
    failures = [Failure(first, share * 0.5 * each, 20.0)]
    for number in range(1, count):
        at = first + number * each
        failures.append(Failure(at, share * (each - 20.0), 20.0))
    fails(world, failures)


SCENARIO = Scenario(RULE, set_up, (*confounders.CALM, *confounders.DATA, *confounders.ANYWHERE))
