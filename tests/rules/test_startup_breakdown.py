"""`startup_breakdown`: the duration of start-up, and how it was spent."""

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

RULE = "startup_breakdown"


def starts(at: float, seconds: float = 2000, **series: Any) -> NodeFrame:
    table = f.samples(seconds, **series) if series else None
    return f.node(series=table, step_tables=[f.steps(100, start=at)])


def run(node: NodeFrame, duration: float = 2000) -> RunFrame:
    return f.run(node, duration=duration)


def live(node: NodeFrame, duration: float) -> RunFrame:
    return replace(run(node, duration), final=False)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(run(starts(200)), "fired", id="a tenth of the run"),
        pytest.param(run(starts(199)), "passed", id="not quite"),
        pytest.param(run(starts(59), duration=200), "passed", id="below a minute"),
        pytest.param(run(starts(60), duration=200), "fired", id="a minute of a short run"),
        pytest.param(run(starts(600), duration=50_000), "fired", id="ten minutes"),
        pytest.param(run(starts(599), duration=50_000), "passed", id="not quite ten minutes"),
        pytest.param(live(starts(200), 500), "insufficient_data", id="live: who knows the share"),
        pytest.param(live(starts(650), 700), "fired", id="live: long is long"),
        pytest.param(live(starts(20), 700), "passed", id="live: short"),
        pytest.param(run(f.node()), "insufficient_data", id="nobody tells"),
        pytest.param(f.run(), "insufficient_data", id="nothing at all"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_of_the_sample_in_which_the_first_step_begins_a_part_counts() -> None:
    series = f.samples(2000, resolution=10.0, net__received_bytes_total=1e9 * np.arange(200))
    node = f.node(series=series, step_tables=[f.steps(100, start=304)])
    numbers = judged(RULE, f.run(node, duration=2000, resolution=10.0)).numbers
    assert numbers.values["receiving_seconds"] == pytest.approx(294)


def test_it_says_what_the_time_went_into_and_advises_on_the_largest_part() -> None:
    ticks = np.arange(2000)
    downloads, reads = ticks < 150, (ticks >= 150) & (ticks < 200)
    computes = (ticks >= 200) & (ticks < 280)
    node = starts(
        300,
        net__received_bytes_total=np.cumsum(np.where(downloads, 5e7, 1e4)),
        disk__read_bytes_total=np.cumsum(np.where(reads, 5e7, 1e4)),
        tree__cpu_seconds_total=np.cumsum(np.where(computes, 1.0, 0.1)),
    )
    verdict = judged(RULE, run(node)).verdict
    assert "receiving 2 m 29 s, reading 50 s, computing 1 m 20 s, waiting 20 s" in verdict.summary
    assert "stream the data" in verdict.advice


def test_what_was_not_measured_is_not_made_up() -> None:
    assert "Start-up took 5 m 0 s." in judged(RULE, run(starts(300))).verdict.summary


def set_up(world: World, factor: float) -> None:
    """10 % of the run, or 10 minutes."""
    if world.random.random() < 0.5:
        world.begin_seconds = 0.1 * factor * world.seconds
    else:
        world.begin_seconds = 600 * factor
        world.seconds = 12 * world.begin_seconds
        world.resolution_seconds, world.step_seconds = 2.0, 4.0


SCENARIO = Scenario(
    RULE,
    set_up,
    (*confounders.SIMPLE[2:], *confounders.PAUSES, *confounders.GPUS, *confounders.DATA),
)
