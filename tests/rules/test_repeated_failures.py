"""`repeated_failures`: a run that fails repeatedly."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from rules.frame import RunFrame
from tests.rules.cases import judged
from tests.rules.endings import Events, ends, run, saved
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, World

RULE = "repeated_failures"


def crashes(*times: float) -> Events:
    return [event for at in times for event in ends(at, "failed", 1)]


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(run(crashes(1000, 2000, 3000)), "fired", id="three times"),
        pytest.param(run(crashes(1000, 2000)), "passed", id="twice"),
        pytest.param(run(crashes(1000, 1020, 1040)), "passed", id="within a minute it is once"),
        pytest.param(run(crashes(1000, 2000), nodes=4), "passed", id="four nodes, twice"),
        pytest.param(run(ends(4000, "finished", 0)), "passed", id="never"),
        pytest.param(
            replace(run(crashes(1000, 2000, 3000)), final=False), "fired", id="still going"
        ),
        pytest.param(run([]), "insufficient_data", id="nobody tells"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_each_failure_loses_what_came_after_the_last_checkpoint_or_start() -> None:
    events = crashes(1000, 2000, 3000) + saved(900) + [(2500.0, "process_start", {})]
    verdict = judged(RULE, run(events)).verdict
    # 100 s after the checkpoint, 1000 s after the first failure, 500 s after the second start.
    assert verdict.claimed_seconds_high == pytest.approx(1600)


def set_up(world: World, factor: float) -> None:
    """Fail three times in one run."""
    count = math.ceil(3 * factor) if factor > 1 else math.floor(3 * factor)

    def change(node: Node) -> None:
        for number in range(1, count + 1):
            at = number * world.seconds / (count + 1)
            node.events.append((at, "process_exit", {"exit_code": 1}))
            node.events.append((at + 20, "process_start", {}))

    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, (*confounders.ON_GPU, *confounders.DATA, *confounders.ANYWHERE))
