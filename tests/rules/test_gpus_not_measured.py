"""`gpus_not_measured`: GPUs that are there, and of whose use nothing is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rules.engine import evaluate
from rules.frame import NodeFrame, RunFrame
from rules.ledger import ledger
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, World

RULE = "gpus_not_measured"


def held(
    gpus: int = 0, of_type: int = 0, seconds: float = 600, key: str = "n1", **series: Any
) -> NodeFrame:
    """Return a node with `gpus` that the agent listed, of a type that has `of_type`."""
    table = f.samples(seconds, host__cpu_busy_pct=12.0, host__memory_used_bytes=4e9, **series)
    return f.node(key, table, of=f.hardware(gpus=gpus, gpus_of_type=of_type))


USED: dict[str, Any] = {"gpu0__busy_pct": 80.0}


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(f.run(held(of_type=1)), "fired", id="no driver"),
        pytest.param(f.run(held(gpus=1, of_type=1)), "fired", id="listed, without counters (MIG)"),
        pytest.param(f.run(held(gpus=2, **USED)), "fired", id="one of two"),
        pytest.param(f.run(held(gpus=1, of_type=1, **USED)), "passed", id="measured"),
        pytest.param(f.run(held(gpus=1, gpu0__busy_pct=0.0)), "passed", id="measured as idle"),
        pytest.param(f.run(held(of_type=1, **USED)), "passed", id="measured, not listed"),
        pytest.param(
            f.run(held(gpus=1, gpu0__mig0__sm_active_pct=30.0)), "passed", id="a slice is measured"
        ),
        pytest.param(f.run(held(gpus=1, gpu0__busy_pct=f.GAP)), "fired", id="nothing but gaps"),
        pytest.param(f.run(held()), "not_applicable", id="a machine without GPUs"),
        pytest.param(f.run(held(of_type=1, seconds=119)), "insufficient_data", id="too early"),
        pytest.param(f.run(held(of_type=1, seconds=120)), "fired", id="just late enough"),
        pytest.param(f.run(f.node()), "not_applicable", id="nothing at all"),
        pytest.param(
            f.run(held(gpus=1, **USED), held(of_type=1, key="n2")), "fired", id="one of two nodes"
        ),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_it_names_the_node_and_how_many_and_claims_no_waste() -> None:
    verdict = judged(RULE, f.run(held(gpus=1, **USED), held(of_type=4, key="n2"))).verdict
    assert verdict.summary == "The utilisation of 4 GPUs on n2 is unknown."
    assert verdict.claimed_seconds_high == 0


def test_a_gpu_that_was_not_given_to_the_run_is_not_missed() -> None:
    node = held(gpus=2, **USED)
    other = replace(node.hardware.gpus[1], allocated=False)
    hardware = replace(node.hardware, gpus=(node.hardware.gpus[0], other))
    assert judged(RULE, f.run(replace(node, hardware=hardware))).verdict.state == "passed"


@pytest.mark.parametrize("final", [True, False])
def test_no_other_rule_takes_unseen_gpus_for_none_or_for_idle(final: bool) -> None:
    node = replace(held(of_type=4, seconds=3000), steps=f.steps(2900, wait=0.01))
    frame = replace(f.run(node, duration=3000), final=final)
    fired = [each.rule_id for each in evaluate(frame, {}) if each.verdict.state == "fired"]
    assert fired == [RULE]
    about_gpus = {"low_gpu_utilization", "unused_gpus", "cpu_oversized", "batch_size"}
    states = {each.rule_id: each.verdict.state for each in evaluate(frame, {})}
    assert {states[rule] for rule in about_gpus} == {"insufficient_data"}
    assert "unused_cores" not in ledger(frame).node_seconds()


def set_up(world: World, factor: float) -> None:
    """Let the last GPU's driver answer nothing; in a near miss it stops answering."""

    def change(node: Node) -> None:
        for name in ("busy_pct", "memory_used_bytes", "power_watts"):
            series = f"gpu{node.gpus - 1}.{name}"
            if factor > 1:
                del node.series[series]
            else:
                node.series[series][node.times > factor * world.seconds] = f.GAP

    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, confounders.CALM)
