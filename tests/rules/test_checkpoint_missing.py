"""`checkpoint_missing`: hours of training and nothing saved."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from rules.frame import RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import World

RULE = "checkpoint_missing"


def working(hours: float, events: Any = (), writes: float | None = None) -> RunFrame:
    """Return a run with steps of a minute, from the first second on."""
    count = round(hours * 60)
    series: dict[str, Any] = {"host__cpu_busy_pct": 50.0}
    if writes is not None:
        rates = np.where(np.arange(count) % 30 == 0, writes, 1e5)
        series["disk__written_bytes_total"] = np.cumsum(rates * 60)
    table = f.samples(hours * 3600, resolution=60, **series)
    node = f.node(series=table, step_tables=[f.steps(count, duration=60)], events=events)
    return f.run(node, duration=hours * 3600, resolution=60)


SAVED = [(1800.0, "checkpoint", {"seconds": 3.0})]


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(working(3), "fired", id="three hours"),
        pytest.param(working(2), "fired", id="two hours"),
        pytest.param(working(1.98), "passed", id="not quite"),
        pytest.param(working(3, SAVED), "passed", id="one was told"),
        pytest.param(working(3, writes=1e6), "fired", id="only logs are written"),
        pytest.param(working(3, writes=2e8), "insufficient_data", id="something large is"),
        pytest.param(replace(working(3), final=False), "fired", id="still going"),
        pytest.param(f.run(f.node(), duration=9000), "insufficient_data", id="no steps told"),
        pytest.param(f.run(), "insufficient_data", id="nothing at all"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_what_is_at_stake_is_the_chance_of_a_failure_times_half_of_the_work() -> None:
    verdict = judged(RULE, working(4)).verdict
    assert verdict.claims == (), "this run lost nothing"
    assert "40 s to 20 m 0 s of a run like this one" in verdict.summary


def set_up(world: World, factor: float) -> None:
    """Work for two hours and save nothing."""
    world.resolution_seconds, world.step_seconds = 5.0, 4.0
    world.seconds = world.begin_seconds + 7200 * factor


SCENARIO = Scenario(
    RULE, set_up, (*confounders.SIMPLE, *confounders.GPUS, *confounders.DATA, *confounders.ANYWHERE)
)
