"""`failed_late` and `repeated_failures`: what failing cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rules.frame import RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged

LATE, REPEATED = "failed_late", "repeated_failures"
Events = list[tuple[float, str, dict[str, Any]]]


def ends(at: float, state: str, code: int) -> Events:
    return [
        (at, "process_exit", {"exit_code": code}),
        (at, "session_end", {"state": state, "exit_code": code}),
    ]


def run(events: Events, seconds: float = 4000, nodes: int = 1) -> RunFrame:
    return f.run(*(f.node(f"n{n}", events=events) for n in range(nodes)), duration=seconds)


def saved(at: float) -> Events:
    return [(at, "checkpoint", {"seconds": 1.0})]


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
def test_late(frame: RunFrame, state: str) -> None:
    assert judged(LATE, frame).verdict.state == state


def test_what_is_lost_is_the_time_since_the_last_checkpoint() -> None:
    verdict = judged(LATE, run(saved(1000) + saved(3000) + FAILED)).verdict
    assert (verdict.waste_seconds_low, verdict.waste_seconds_high) == (500, 1000)


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
def test_repeated(frame: RunFrame, state: str) -> None:
    assert judged(REPEATED, frame).verdict.state == state


def test_each_failure_loses_what_came_after_the_last_checkpoint_or_start() -> None:
    events = crashes(1000, 2000, 3000) + saved(900) + [(2500.0, "process_start", {})]
    verdict = judged(REPEATED, run(events)).verdict
    # 100 s after the checkpoint, 1000 s after the first failure, 500 s after the second start.
    assert verdict.waste_seconds_high == pytest.approx(1600)
