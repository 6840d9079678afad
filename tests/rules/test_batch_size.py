"""`batch_size`: when everything has room, and when the batch is not the cause."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rules.frame import NodeFrame, RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.changes import set_gpu_p95, set_p95
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import CARD_BYTES, Node, World

RULE = "batch_size"
CARD = 16 * f.GIB


def used(
    cpu: f.Values = 30.0,
    gpu: f.Values = 40.0,
    memory_pct: f.Values = 25.0,
    wait: float = 0.02,
    key: str = "n1",
) -> NodeFrame:
    series = f.samples(
        600,
        host__cpu_busy_pct=cpu,
        gpu0__busy_pct=gpu,
        gpu0__memory_used_bytes=np.asarray(memory_pct) / 100 * CARD,
        gpu0__memory_controller_busy_pct=5.0,
    )
    return f.node(key, series, [f.steps(600, wait=wait)], of=f.hardware(gpus=1))


NO_MEMORY = f.node(
    series=f.samples(
        600, host__cpu_busy_pct=30.0, gpu0__busy_pct=40.0, gpu0__memory_controller_busy_pct=5.0
    ),
    of=f.hardware(gpus=1),
)
PEAKS = np.where(np.arange(600) % 10 == 0, 90.0, 40.0)
RARE_PEAKS = np.where(np.arange(600) % 30 == 0, 90.0, 40.0)
GAPS = np.where(np.arange(600) % 2 == 0, 40.0, f.GAP)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(f.run(used()), "fired", id="room everywhere"),
        pytest.param(f.run(used(cpu=70.0)), "passed", id="CPU at the boundary"),
        pytest.param(f.run(used(cpu=69.9)), "fired", id="CPU just below"),
        pytest.param(f.run(used(gpu=70.0)), "passed", id="GPU at the boundary"),
        pytest.param(f.run(used(memory_pct=70.0)), "passed", id="memory at the boundary"),
        pytest.param(f.run(used(memory_pct=69.9)), "fired", id="memory just below"),
        pytest.param(f.run(used(gpu=PEAKS)), "passed", id="a tenth of the time busy"),
        pytest.param(f.run(used(gpu=RARE_PEAKS)), "fired", id="3 % of the time busy"),
        pytest.param(f.run(used(gpu=GAPS)), "fired", id="gaps are unknown, not zero"),
        pytest.param(f.run(used(), used(gpu=95.0, key="n2")), "fired", id="one of two nodes"),
        pytest.param(f.run(used(gpu=0.0)), "not_applicable", id="GPU never used"),
        pytest.param(f.run(NO_MEMORY), "insufficient_data", id="the controller is no memory"),
        pytest.param(f.run(used(cpu=f.GAP)), "insufficient_data", id="no CPU"),
        pytest.param(f.run(used(gpu=f.GAP)), "insufficient_data", id="no GPU use"),
        pytest.param(f.run(f.node()), "not_applicable", id="no GPU"),
        pytest.param(f.run(used(), duration=2e4), "fired", id="600 s of a long run"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_it_needs_the_patience_of_a_long_run_and_a_quarter_of_a_short_one() -> None:
    node = used()
    early = replace(node, samples=node.samples[node.samples.index < 100])
    assert judged(RULE, f.run(early, duration=400)).verdict.state == "fired"
    assert judged(RULE, f.run(early, duration=440)).verdict.state == "insufficient_data"


def test_it_promises_nothing_where_the_loop_waits_for_its_data() -> None:
    verdict = judged(RULE, f.run(used(wait=0.5))).verdict
    assert "the loop waited for data for 50 % of the step time" in verdict.summary
    assert verdict.claimed_seconds_low == 0 < verdict.claimed_seconds_high


def test_a_gain_never_exceeds_the_idle_time() -> None:
    verdict = judged(RULE, f.run(used(gpu=65.0))).verdict
    assert verdict.claimed_seconds_low == pytest.approx(600 * (1 - 1 / 1.1))
    assert verdict.claimed_seconds_high == pytest.approx(600 * 0.35)


def test_a_running_run_is_judged_once_there_is_enough() -> None:
    assert judged(RULE, replace(f.run(used()), final=False)).verdict.state == "fired"
    unused = replace(f.run(used(gpu=0.0)), final=False)
    assert judged(RULE, unused).verdict.state == "insufficient_data"


def test_it_answers_to_the_names_of_sagemaker() -> None:
    values = {"gpu_threshold_p95": 30, "window": 200}
    judgement = judged(RULE, f.run(used()), values)
    assert judgement.verdict.state == "passed"
    assert judgement.values["window_seconds"] == 100


def set_up(world: World, factor: float) -> None:
    """Keep CPU, GPU and GPU memory all below 70 %; in a near miss, one of them is above."""
    above = min(70 / factor, 99.0)
    levels = [above] * 3
    if factor < 1:
        levels = [35.0] * 3
        levels[world.random.integers(3)] = above
    cpu, gpu, memory = levels

    def change(node: Node) -> None:
        set_p95(node, "host.cpu_busy_pct", cpu)
        set_gpu_p95(node, gpu)
        for number in range(node.gpus):
            node.series[f"gpu{number}.memory_used_bytes"][:] = memory / 100 * CARD_BYTES

    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, (*confounders.CALM, confounders.controller_at_work))
