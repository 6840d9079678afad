"""`idle_notebook`: an unused interactive session."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rules.frame import NodeFrame, RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, World

RULE = "idle_notebook"
TICKS = np.arange(1200)
RESOLUTION = 10


def session(
    idle: float, gpu: float = 0.0, cores: float = 0.01, steps: int = 0, own: bool = True
) -> NodeFrame:
    """Return 12,000 s, of which nobody works for `idle` in one piece."""
    inside = (TICKS * RESOLUTION >= 2000) & (2000 + idle > TICKS * RESOLUTION)
    used = np.where(inside, cores, 2.0)
    series: dict[str, Any] = {"gpu0__busy_pct": np.where(inside, gpu, 60.0)}
    if own:
        series["tree__cpu_seconds_total"] = np.cumsum(used * RESOLUTION)
    else:
        series["host__cpu_busy_pct"] = 100 * used / 8
    table = f.samples(12_000, resolution=RESOLUTION, **series)
    tables: list[pd.DataFrame] = [f.steps(steps)] if steps else []
    return f.node(series=table, step_tables=tables, of=f.hardware(gpus=1))


def run(node: NodeFrame) -> RunFrame:
    return f.run(node, duration=12_000, resolution=RESOLUTION)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(run(session(5000)), "fired", id="83 minutes"),
        pytest.param(run(session(3640)), "fired", id="an hour"),
        pytest.param(run(session(3580)), "passed", id="not quite"),
        pytest.param(run(session(5000, gpu=20.0)), "passed", id="the GPU works"),
        pytest.param(run(session(5000, cores=0.5)), "passed", id="the cores work"),
        pytest.param(run(session(5000, own=False)), "fired", id="by the machine's cores"),
        pytest.param(run(session(5000, steps=50)), "not_applicable", id="it trains"),
        pytest.param(replace(run(session(10_000)), final=False), "fired", id="still going"),
        pytest.param(run(f.node()), "insufficient_data", id="nothing known"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_it_says_that_it_judged_by_the_whole_machine() -> None:
    by_machine = judged(RULE, run(session(5000, own=False))).verdict.summary
    assert "its own processes were not seen" in by_machine
    assert "not seen" not in judged(RULE, run(session(5000))).verdict.summary


@pytest.mark.parametrize("others", [0.3, 7.5])
def test_neighbours_keep_no_session_from_being_idle(others: float) -> None:
    node = session(5000)
    node.samples["host.cpu_busy_pct"] = 100 * others / 8
    assert judged(RULE, run(node)).verdict.state == "fired"


def test_the_waste_is_the_idle_time() -> None:
    verdict = judged(RULE, run(session(5000))).verdict
    assert verdict.claimed_seconds_high == pytest.approx(5000, abs=2 * RESOLUTION)


def set_up(world: World, factor: float) -> None:
    """Let neither GPUs nor processes do anything for an hour; no steps are recorded."""
    world.with_steps = False
    length = 3600.0 * factor
    world.seconds = length + world.random.uniform(1500, 3000)
    start = world.random.uniform(0.1, 0.9) * (world.seconds - length)

    def change(node: Node) -> None:
        inside = (node.times >= start) & (node.times < start + length)
        node.series["host.cpu_busy_pct"] = np.where(inside, 0.6, 30.0)
        for gpu in range(node.gpus):
            busy = np.where(inside, 0.0, 40 + world.noise(len(node.times), 5))
            node.series[f"gpu{gpu}.busy_pct"] = np.clip(busy, 0, 100)
        own = np.where(inside, 0.01, 2.0) * world.resolution_seconds
        node.series["tree.cpu_seconds_total"] = np.cumsum(own)

    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, confounders.SIMPLE[:1])
