"""`slow_restart`: the time from a failure to the next step."""

from __future__ import annotations

import pytest

from rules.frame import RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.restarted import ended, gpu_node, process
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.restarts import Failure, fails
from tests.rules.scenarios.world import World

RULE = "slow_restart"


def restarted(*waits: float) -> RunFrame:
    """Return a run whose process the launcher starts again each time, after 100 steps of a
    second.
    """
    events, tables, at = [process(0)], [f.steps(100)], 100.0
    for number, wait in enumerate(waits, 1):
        events.append(process(at + 1, restarts=number))
        tables.append(f.steps(100, start=at + wait))
        at += wait + 100
    node = gpu_node(*tables, events=[*events, ended(at, "finished")], held=(0, at))
    return f.run(node, duration=at)


def replaced(wait: float) -> RunFrame:
    """Return a run of which the machine was replaced twice, by one that came two hours later."""
    nodes, at = [], 0.0
    for number in range(3):
        table = f.steps(1000, start=at + wait)
        held, at = (at, at + wait + 1000), at + wait + 1000
        last = ended(held[1], "finished" if number == 2 else "failed", exit_code=1)
        nodes.append(gpu_node(table, key=f"n{number}", held=held, events=[last]))
        at += 7200
    return f.run(*nodes, duration=at - 7200)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(restarted(400, 300), "fired", id="five minutes"),
        pytest.param(restarted(280, 300), "passed", id="less"),
        pytest.param(restarted(900), "passed", id="once"),
        pytest.param(replaced(301), "fired", id="another machine"),
        pytest.param(replaced(200), "passed", id="the time without a machine doesn't count"),
        pytest.param(f.run(gpu_node(f.steps(900)), duration=1000), "passed", id="never"),
        pytest.param(f.run(gpu_node()), "insufficient_data", id="no steps"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_what_a_prepared_restart_takes_is_no_waste() -> None:
    verdict = judged(RULE, restarted(300, 300)).verdict
    assert verdict.claimed_seconds_high == pytest.approx(2 * (300 - 60))


def set_up(world: World, factor: float) -> None:
    """Restart two or three times for five minutes, which is 2 % of the run and more."""
    world.seconds *= 2
    count = int(world.random.integers(2, 4))
    times = [(n + 1) * world.seconds / (count + 1) for n in range(count)]
    fails(world, [Failure(at, 0.0, 300 * factor) for at in times])


SCENARIO = Scenario(RULE, set_up, (*confounders.CALM, *confounders.DATA, *confounders.ANYWHERE))
