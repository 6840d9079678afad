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
        pytest.param(run(starts(4), duration=40), "passed", id="below five seconds"),
        pytest.param(run(starts(5), duration=50), "fired", id="five seconds of a short run"),
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


def counting(per_second: float) -> f.Values:
    return np.arange(2000) * per_second


@pytest.mark.parametrize(
    ("series", "kind"),
    [
        ({"tree__cpu_seconds_total": counting(0.02)}, "waiting"),
        ({"tree__cpu_seconds_total": counting(0.9)}, "computing"),
        (
            {
                "tree__cpu_seconds_total": counting(0.4),
                "tree__run_delay_seconds_total": counting(0.6),
            },
            "starved",
        ),
        (
            {
                "tree__cpu_seconds_total": counting(0.02),
                "tree__read_bytes_total": counting(0),
                "disk__read_bytes_total": counting(1e9),
                "net__received_bytes_total": counting(1e9),
                "host__cpu_busy_pct": 95.0,
            },
            "waiting",
        ),
    ],
)
def test_neighbours_are_told_from_the_run_s_own_start(series: dict[str, Any], kind: str) -> None:
    judgement = judged(RULE, run(starts(300, **series)))
    assert judgement.numbers.values[f"{kind}_seconds"] == pytest.approx(299, abs=1)
    assert f"({kind} " in judgement.verdict.summary


def test_compilation_that_is_told_comes_first() -> None:
    node = starts(300, tree__cpu_seconds_total=counting(0.02))
    told = f.node(events=[(290.0, "compile", {"seconds": 200.0, "rank": 0})]).events
    judgement = judged(RULE, run(replace(node, events=told)))
    assert judgement.numbers.values["compiling_seconds"] == pytest.approx(200)
    assert judgement.numbers.values["waiting_seconds"] == pytest.approx(99, abs=1)
    assert "compiler's cache" in judgement.verdict.advice


def test_a_long_first_step_is_no_compilation() -> None:
    node = starts(300, tree__cpu_seconds_total=counting(0.02))
    slow = f.node(step_tables=[f.steps(1, start=280, duration=60), f.steps(500, start=340)]).steps
    judgement = judged(RULE, run(replace(node, steps=slow)))
    assert judgement.numbers.values["compiling_seconds"] == 0
    assert "compiling" not in judgement.verdict.summary


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
    """Start up for 10 % of the run, or for 10 minutes."""
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
