"""`failed_late`: a run that failed after hours, and the lost work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rules.frame import RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.endings import ends, run, saved
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import World

RULE = "failed_late"
FAILED = ends(4000, "failed", 1)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(run(FAILED), "fired", id="nothing saved"),
        pytest.param(run(saved(3700) + FAILED), "fired", id="five minutes unsaved"),
        pytest.param(run(saved(3701) + FAILED), "passed", id="saved in time"),
        pytest.param(run(ends(1800, "failed", 1), 1800), "fired", id="half an hour"),
        pytest.param(run(ends(1799, "failed", 1), 1799), "passed", id="not quite"),
        pytest.param(run(ends(4000, "finished", 0)), "passed", id="finished"),
        pytest.param(run(ends(4000, "stopped", 143)), "passed", id="stopped on purpose"),
        pytest.param(run([FAILED[0]]), "fired", id="only its exit code is known"),
        pytest.param(run([]), "insufficient_data", id="nobody tells"),
        pytest.param(replace(run(FAILED), final=False), "insufficient_data", id="still going"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_what_is_lost_is_the_time_since_the_last_checkpoint() -> None:
    verdict = judged(RULE, run(saved(1000) + saved(3000) + FAILED)).verdict
    assert (verdict.claimed_seconds_low, verdict.claimed_seconds_high) == (500, 1000)


def test_starting_up_is_no_lost_work() -> None:
    """A restart needs it again, saved or not."""
    worked = [f.steps(3600, start=400.0)]
    frame = f.run(f.node(step_tables=worked, events=FAILED), duration=4000)
    verdict = judged(RULE, frame).verdict
    assert verdict.claimed_seconds_high == pytest.approx(3600, abs=2)
    assert "with 1 h 0 m of work since" in verdict.summary


def set_up(world: World, factor: float) -> None:
    """Fail after half an hour, or 5 minutes after the last checkpoint."""
    world.ending = "failed"
    if world.random.random() < 0.5:
        world.seconds = 1800 * factor
    else:
        world.seconds = 3600.0
        at = world.seconds - 300 * factor
        saved: tuple[float, str, dict[str, Any]] = (at, "checkpoint", {"seconds": 2.0, "rank": 0})
        world.changes.append(lambda node: node.events.append(saved))


SCENARIO = Scenario(
    RULE, set_up, (*confounders.SIMPLE, *confounders.GPUS, *confounders.DATA, *confounders.ANYWHERE)
)
