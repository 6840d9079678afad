"""No rule fires on the start of a healthy run: what start-up explains is no finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from rules.engine import evaluate
from rules.frame import RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios.live import so_far
from tests.rules.scenarios.standstill import SAMPLED_SECONDS
from tests.rules.scenarios.world import Node, World

SEEN_SECONDS = (30.0, 60.0, 120.0, 300.0)
Start = Callable[[World], None]


def imports(world: World) -> None:
    """Start up for a few seconds to a minute on one core."""
    world.begin_seconds = world.random.uniform(15, 60)


def downloads(world: World) -> None:
    """Download the data, for minutes; the disk is the limit."""
    world.begin_seconds = world.random.uniform(100, 260)
    world.changes.append(_before_work({"host.cpu_iowait_pct": 30.0, "host.cpu_busy_pct": 8.0}))


def prepares_data(world: World) -> None:
    """Prepare data on all cores."""
    world.begin_seconds = world.random.uniform(60, 260)
    world.changes.append(_before_work({"host.cpu_busy_pct": 97.0}))


def reports_no_steps(world: World) -> None:
    """Use the GPUs after a while, without any step."""
    world.begin_seconds = world.random.uniform(20, 200)
    world.with_steps = False


def compiles(world: World) -> None:
    """Compile within the first step: the GPU is touched, and then it waits for the compiler."""
    world.begin_seconds = world.random.uniform(100, 250)
    touched = world.random.uniform(10, 25)

    def change(node: Node) -> None:
        at = (node.times >= touched) & (node.times < touched + 5)
        for gpu in range(node.gpus):
            node.series[f"gpu{gpu}.busy_pct"][at] = 60.0
        first = node.steps.groupby("rank")["start_seconds"].idxmin()
        starts = node.steps.loc[first, "start_seconds"]
        node.steps.loc[first, "duration_seconds"] += starts - touched
        node.steps.loc[first, "start_seconds"] = touched

    world.changes.append(change)


def without_gpus(world: World) -> None:
    world.begin_seconds = world.random.uniform(15, 120)
    world.gpus = 0


def several_ranks(world: World) -> None:
    world.begin_seconds = world.random.uniform(15, 60)
    world.ranks = world.gpus = 4


def _before_work(levels: dict[str, float]) -> Callable[[Node], None]:
    def change(node: Node) -> None:
        starts = node.steps["start_seconds"].min()
        for name, level in levels.items():
            node.series[name][node.times < starts] = level

    return change


STARTS: tuple[Start, ...] = (
    imports,
    downloads,
    prepares_data,
    reports_no_steps,
    compiles,
    without_gpus,
    several_ranks,
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seen_seconds", SEEN_SECONDS)
@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.__name__)
def test_no_rule_fires_on_the_first_minutes_of_a_healthy_run(
    start: Start, seen_seconds: float
) -> None:
    for seed in range(2):
        run = so_far(healthy(start, seed), seen_seconds)
        assert {e.rule_id: e.verdict.summary for e in evaluate(run, {}) if is_fired(e)} == {}


def is_fired(judgement) -> bool:  # type: ignore[no-untyped-def]
    return bool(judgement.verdict.state == "fired")


def healthy(start: Start, seed: int) -> RunFrame:
    random = np.random.default_rng([20261122, seed])
    world = World(
        random,
        seconds=900.0,
        resolution_seconds=SAMPLED_SECONDS,
        nodes=int(random.integers(1, 3)),
        step_seconds=float(random.uniform(0.3, 3.0)),
        gpu_pct=float(random.uniform(84, 95)),
        cpu_pct=float(random.uniform(35, 60)),
        final=False,
        epochs=1,
    )
    start(world)
    return world.frame()


@pytest.mark.parametrize("rule_id", ["low_gpu_utilization", "unused_gpus"])
def test_gpus_that_have_not_been_used_so_far_may_still_be(rule_id: str) -> None:
    """An hour of preparation changes nothing; after the end it is known."""
    series = f.samples(3600, gpu0__busy_pct=0.0, gpu1__busy_pct=0.0)
    run = f.run(f.node(series=series, of=f.hardware(gpus=2)), duration=3600)
    verdict = judged(rule_id, replace(run, final=False)).verdict
    assert (verdict.state, "so far" in verdict.summary) == ("insufficient_data", True)
    assert judged(rule_id, run).verdict.state == "fired"


def test_a_gpu_is_low_in_a_running_run_once_it_had_the_whole_patience() -> None:
    busy = np.where(np.arange(900) < 100, 0.0, 20.0)
    node = f.node(series=f.samples(900, gpu0__busy_pct=busy), of=f.hardware(gpus=1))
    run = f.run(node, duration=900)
    states = [
        judged("low_gpu_utilization", so_far(run, seconds)).verdict.state
        for seconds in (300.0, 599.0, 600.0)
    ]
    assert states == ["insufficient_data", "insufficient_data", "fired"]
