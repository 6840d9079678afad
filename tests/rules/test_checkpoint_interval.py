"""`checkpoint_interval`: checkpoints too often or too rarely for the size of the run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.checkpoints import best_interval_seconds
from rules.frame import RunFrame
from rules.ledger import ledger
from rules.wording import lasting
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, World

RULE = "checkpoint_interval"


def every(interval: float, seconds: float = 30.0, nodes: int = 16, count: int = 6) -> RunFrame:
    """Make a run with checkpoints. On 16 nodes one of 30 s is best made after 3098 s of work."""
    events = [(n * interval, "checkpoint", {"seconds": seconds}) for n in range(1, count + 1)]
    made = [f.node(f"n{n}", events=events if n == 0 else ()) for n in range(nodes)]
    return f.run(*made, duration=(count + 1) * interval)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(every(500), "fired", id="too often"),
        pytest.param(every(1060), "fired", id="just too often"),
        pytest.param(every(1066), "passed", id="not quite"),
        pytest.param(every(3000), "passed", id="at its best"),
        pytest.param(every(9320), "passed", id="rare"),
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
    often, rare = judged(RULE, every(500, count=9)).verdict, judged(RULE, every(20_000)).verdict
    assert f"every {lasting(3098)}" in often.advice
    assert f"every {lasting(3098)}" in rare.advice
    assert often.dedupe_key != rare.dedupe_key


@given(
    interval=st.floats(60, 900),
    seconds=st.floats(5, 50),
    count=st.integers(3, 60),
    hours=st.floats(2, 10_000),
)
def test_the_waste_is_what_the_best_number_of_checkpoints_saves(
    interval: float, seconds: float, count: int, hours: float
) -> None:
    """The best number is found by trying each, with half an interval lost in each failure."""
    frame = every(interval + seconds, seconds, nodes=1, count=count)
    found = judged(RULE, frame, {"mtbf_hours": hours, "least_waste_pct": 0}).verdict
    work = count * interval
    failures = min(work / hours / 3600, 1.0)
    each = [n * seconds + failures * work / n / 2 for n in range(1, 20 * count)]
    least = each[count - 1] - min(each)
    if found.dedupe_key.endswith("often"):
        assert found.claimed_seconds_high == pytest.approx(least, rel=0.1, abs=2 * seconds)
    assert found.claimed_seconds_high <= count * seconds + failures * interval / 2


def test_a_short_loop_is_told_to_save_once_and_not_at_an_interval_beyond_its_end() -> None:
    """Three minutes, of which 18 s are checkpoints; the rest of the run is start-up."""
    events = [(820 + 20 * n, "checkpoint", {"seconds": 2.0}) for n in range(1, 10)]
    loop = f.steps(180, start=820.0)
    found = judged(RULE, f.run(f.node(step_tables=[loop], events=events), duration=1000)).verdict
    assert found.state == "fired"
    assert "9 checkpoints of 2 s, every 18 s, took 18 s, 1.8 % of the run" in found.summary
    assert found.advice.startswith("Save once, at the end")
    assert found.claimed_seconds_high <= 18


def test_a_run_that_goes_on_is_told_the_interval_for_the_rest() -> None:
    """Nobody knows how much work is left, so that the best interval may be longer than the loop."""
    running = replace(every(500, count=4), final=False)
    assert f"every {lasting(3098)}" in judged(RULE, running).verdict.advice


@pytest.mark.parametrize(
    ("gpu_pct", "state"), [(0.0, "fired"), (90.0, "passed")], ids=["stopped", "in the background"]
)
def test_only_what_stopped_the_loop_counts(gpu_pct: float, state: str) -> None:
    events = [(100.0 * n, "checkpoint", {"seconds": 20.0}) for n in range(1, 10)]
    busy = np.full(1000, 90.0)
    for at, _, _ in events:
        busy[round(at) - 20 : round(at)] = gpu_pct
    node = f.node(series=f.samples(1000, gpu0__busy_pct=busy), events=events, of=f.hardware(gpus=1))
    verdict = judged(RULE, f.run(node, duration=1000)).verdict
    assert verdict.state == state
    assert ("stopped nothing" in verdict.summary) == (state == "passed")


def test_a_checkpoint_of_one_node_stops_the_others_unless_their_gpus_work() -> None:
    events = [(100.0 * n, "checkpoint", {"seconds": 20.0}) for n in range(1, 10)]
    busy = {state: np.full(1000, 90.0) for state in ("waits", "works")}
    for at, _, _ in events:
        busy["waits"][round(at) - 20 : round(at)] = 0.0
    saves, waits, works = (
        f.node(
            name, f.samples(1000, gpu0__busy_pct=busy[state]), events=told, of=f.hardware(gpus=1)
        )
        for name, state, told in (("n1", "waits", events), ("n2", "waits", ()), ("n3", "works", ()))
    )
    stopped, both = (f.run(saves, other, duration=1000) for other in (waits, works))
    assert ledger(stopped).node_seconds()["checkpoint"] == pytest.approx(360)
    assert ledger(both).node_seconds()["checkpoint"] == pytest.approx(180)
    of_all, of_one = (judged(RULE, frame).verdict for frame in (stopped, both))
    assert of_one.claimed_seconds_high == pytest.approx(of_all.claimed_seconds_high / 2)
    assert "Over all nodes and GPUs" in of_one.summary
    assert "Over all nodes and GPUs" not in of_all.summary


def set_up(world: World, factor: float) -> None:
    """Save at a third of the best interval, or at three times it: eight nodes, checkpoints of a
    minute. The intervals are of work; checkpoints come a minute further apart.
    """
    world.nodes, world.resolution_seconds, world.with_steps = 8, 60.0, False
    world.epochs, world.step_seconds = 4, 60.0
    best = best_interval_seconds(60, 720 * 3600 / world.nodes)
    often = world.random.random() < 0.5
    interval = 60 + (best / 3 / factor if often else best * 3 * factor)
    count = 12 if often else 4
    world.seconds = world.begin_seconds + (count + 0.5) * interval

    def change(node: Node) -> None:
        for number in range(1, count + 1):
            at = world.begin_seconds + number * interval + world.random.uniform(-5, 5)
            node.events.append((at, "checkpoint", {"seconds": 60.0, "rank": 0}))
            saving = (node.times > at - 120.0) & (node.times < at)
            for gpu in range(node.gpus):
                node.series[f"gpu{gpu}.busy_pct"][saving] = 0.0

    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, (*confounders.SIMPLE, *confounders.GPUS))
