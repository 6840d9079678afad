"""`checkpoint_interval`: checkpoints too often or too rarely for the size of the run."""

from __future__ import annotations

import math

import numpy as np
import pytest

from rules.frame import RunFrame
from rules.wording import lasting
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, World

RULE = "checkpoint_interval"


def every(interval: float, seconds: float = 30.0, nodes: int = 16, count: int = 6) -> RunFrame:
    """On 16 nodes a checkpoint of 30 s is best made every 3118 s."""
    events = [(n * interval, "checkpoint", {"seconds": seconds}) for n in range(1, count + 1)]
    made = [f.node(f"n{n}", events=events if n == 0 else ()) for n in range(nodes)]
    return f.run(*made, duration=(count + 1) * interval)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(every(500), "fired", id="too often"),
        pytest.param(every(1035), "fired", id="just too often"),
        pytest.param(every(1045), "passed", id="not quite"),
        pytest.param(every(3000), "passed", id="at its best"),
        pytest.param(every(9300), "passed", id="rare"),
        pytest.param(every(9400), "fired", id="too rare"),
        pytest.param(every(200, seconds=1.0, nodes=1), "passed", id="often, but it costs nothing"),
        pytest.param(every(500, count=2), "insufficient_data", id="two are too few"),
        pytest.param(f.run(f.node()), "insufficient_data", id="none was told"),
        pytest.param(f.run(), "insufficient_data", id="nothing at all"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_the_best_interval_is_dalys_and_too_often_and_too_rarely_are_two_findings() -> None:
    often, rare = judged(RULE, every(500)).verdict, judged(RULE, every(20_000)).verdict
    best = np.sqrt(2 * 30 * 720 * 3600 / 16)
    assert f"every {lasting(best)}" in often.advice
    assert often.dedupe_key != rare.dedupe_key
    excess = 30 / 500 + 500 / (2 * 162_000) - 2 * np.sqrt(30 / (2 * 162_000))
    assert often.waste_seconds_high == pytest.approx(excess * 3500, rel=1e-6)


def set_up(world: World, factor: float) -> None:
    """A third of the best interval, or three times it: eight nodes, checkpoints of a minute."""
    world.nodes, world.resolution_seconds, world.with_steps = 8, 60.0, False
    world.epochs, world.step_seconds = 4, 60.0
    best = math.sqrt(2 * 60 * 720 * 3600 / world.nodes)
    often = world.random.random() < 0.5
    interval = best / 3 / factor if often else best * 3 * factor
    count = 12 if often else 4
    world.seconds = world.begin_seconds + (count + 0.5) * interval

    def change(node: Node) -> None:
        for number in range(1, count + 1):
            at = world.begin_seconds + number * interval + world.random.uniform(-5, 5)
            node.events.append((at, "checkpoint", {"seconds": 60.0, "rank": 0}))

    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, (*confounders.SIMPLE, *confounders.GPUS))
