"""`max_initialization_time`: when work began, and whether it began at all."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rules.frame import NodeFrame, RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import World

RULE = "max_initialization_time"


def begins(at: float, key: str = "n1") -> NodeFrame:
    return f.node(key, step_tables=[f.steps(100, start=at)])


def gpu(*busy: Any, seconds: float = 3000) -> NodeFrame:
    series = {f"gpu{n}__busy_pct": values for n, values in enumerate(busy)}
    return f.node(series=f.samples(seconds, **series), of=f.hardware(gpus=len(busy)))


def live(*nodes: NodeFrame, duration: float) -> RunFrame:
    return replace(f.run(*nodes, duration=duration), final=False)


USED_LATE = np.where(np.arange(3000) < 1500, 0.0, 90.0)
BLIPS = np.where(np.arange(3000) % 40 == 7, 30.0, USED_LATE)
BURSTS = np.where(np.arange(3000) % 20 == 7, 30.0, USED_LATE)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(f.run(begins(1300), duration=3000), "fired", id="late"),
        pytest.param(f.run(begins(1200.5), duration=3000), "fired", id="just above"),
        pytest.param(f.run(begins(1200), duration=3000), "passed", id="at the boundary"),
        pytest.param(f.run(begins(30), duration=3000), "passed", id="soon"),
        pytest.param(f.run(gpu(USED_LATE), duration=3000), "fired", id="first use of a GPU"),
        pytest.param(f.run(gpu(BLIPS), duration=3000), "fired", id="two seconds a minute before"),
        pytest.param(f.run(gpu(BURSTS), duration=3000), "passed", id="three seconds a minute"),
        pytest.param(f.run(gpu(0.0), duration=3000), "not_applicable", id="never used"),
        pytest.param(f.run(gpu(f.GAP), duration=3000), "insufficient_data", id="use unknown"),
        pytest.param(f.run(f.node(), duration=3000), "insufficient_data", id="nobody tells"),
        pytest.param(f.run(), "insufficient_data", id="nothing at all"),
        pytest.param(live(gpu(0.0, seconds=1300), duration=1300), "fired", id="still not begun"),
        pytest.param(
            live(gpu(0.0, seconds=900), duration=900), "insufficient_data", id="not yet late"
        ),
        pytest.param(live(f.node(), duration=1300), "insufficient_data", id="live, nobody tells"),
        pytest.param(
            f.run(begins(1300), begins(60, key="n2"), duration=3000), "passed", id="one node works"
        ),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_the_waste_is_half_to_nine_tenths_of_the_wait() -> None:
    verdict = judged(RULE, f.run(begins(2000), duration=3000)).verdict
    assert (verdict.claimed_seconds_low, verdict.claimed_seconds_high) == (1000, 1800)


def test_by_the_name_of_sagemaker_it_takes_minutes() -> None:
    frame = f.run(begins(700), duration=3000)
    assert judged(RULE, frame, {"threshold": 10}).verdict.state == "fired"
    assert judged(RULE, frame, {"threshold": 12}).verdict.state == "passed"


def set_up(world: World, factor: float) -> None:
    """Take more than 20 minutes before the first step, or the first use of a GPU."""
    world.begin_seconds = 1200 * factor
    world.seconds = 5400.0
    world.with_steps = world.random.random() < 0.5


SCENARIO = Scenario(RULE, set_up, confounders.CALM[2:])
