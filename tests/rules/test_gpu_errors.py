"""`gpu_errors`: what the driver reports of a GPU's hardware."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rules.frame import NodeFrame, RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, World

RULE = "gpu_errors"
FELL_OFF, CONTAINED, PROGRAM = 79, 94, 31


def xid(number: Any, at: float = 100.0, gpu: Any = 0) -> tuple[float, str, dict[str, Any]]:
    return at, "gpu_xid", {"gpu": gpu, "xid": number}


def node(*events: Any, ecc: f.Values | None = 0.0, key: str = "n1", gpus: int = 1) -> NodeFrame:
    counters = (
        {} if ecc is None else {f"gpu{n}__ecc_uncorrected_errors_total": ecc for n in range(gpus)}
    )
    busy = {f"gpu{n}__busy_pct": 90 for n in range(gpus)}
    table = f.samples(600, **busy, **counters)
    return f.node(key, table, [f.steps(600)], list(events), of=f.hardware(gpus=gpus))


RISES = np.where(np.arange(600) < 300, 2.0, 3.0)
RELOADED = np.where(np.arange(600) < 300, 7.0, 0.0)
"""The driver was loaded again, and counts from 0."""


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(f.run(node(xid(FELL_OFF))), "fired", id="fell off the bus"),
        pytest.param(f.run(node(xid(CONTAINED))), "fired", id="contained"),
        pytest.param(f.run(node(xid(PROGRAM), xid(45))), "passed", id="the program's own"),
        pytest.param(f.run(node(ecc=RISES)), "fired", id="memory errors"),
        pytest.param(f.run(node(ecc=5.0)), "passed", id="memory errors before the run"),
        pytest.param(f.run(node(ecc=RELOADED)), "passed", id="loaded again"),
        pytest.param(f.run(node()), "passed", id="none"),
        pytest.param(f.run(node(ecc=None)), "insufficient_data", id="not counted"),
        pytest.param(f.run(node(xid(FELL_OFF), ecc=None)), "fired", id="reported, not counted"),
        pytest.param(f.run(node(), node(ecc=None, key="n2")), "insufficient_data", id="one isn't"),
        pytest.param(f.run(node(), node(xid(FELL_OFF), key="n2")), "fired", id="the second node"),
        pytest.param(f.run(node(xid(FELL_OFF, gpu=5))), "passed", id="a GPU of others"),
        pytest.param(f.run(node(xid(FELL_OFF, gpu=None))), "insufficient_data", id="some GPU"),
        pytest.param(f.run(node(xid("79"), xid(None))), "passed", id="no number"),
        pytest.param(f.run(f.node()), "not_applicable", id="no GPU"),
        pytest.param(f.run(), "not_applicable", id="nothing at all"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_it_names_the_gpus_and_no_waste() -> None:
    verdict = judged(RULE, f.run(node(xid(FELL_OFF, gpu=3), xid(48, gpu=3), gpus=8))).verdict
    assert verdict.summary == "1 of 8 GPUs reported errors of hardware (gpu3)."
    assert verdict.claims == ()


def test_only_an_error_that_lasts_takes_the_node_out_of_the_queue() -> None:
    lasting = judged(RULE, f.run(node(xid(FELL_OFF), xid(CONTAINED)))).verdict
    mended = judged(RULE, f.run(node(xid(CONTAINED)))).verdict
    memory = judged(RULE, f.run(node(ecc=RISES))).verdict
    assert [each.severity for each in (lasting, mended, memory)] == ["high", "medium", "high"]
    assert "out of the queue" in lasting.advice
    assert "out of the queue" not in mended.advice
    assert lasting.dedupe_key != mended.dedupe_key


def test_a_single_error_may_be_too_few() -> None:
    frame = f.run(node(xid(FELL_OFF)))
    verdict = judged(RULE, frame, {"least_errors": 2}).verdict
    assert verdict.state == "passed"
    assert verdict.summary == "Each GPU reported fewer than 2 errors of its hardware."


def set_up(world: World, factor: float) -> None:
    """Report one error of the hardware, or errors of the program only."""

    def change(made: Node) -> None:
        at = float(world.random.uniform(60, world.seconds - 10))
        made.events += [xid(PROGRAM, at), *([xid(FELL_OFF, at)] if factor >= 1 else [])]
        for gpu in range(made.gpus):
            made.series[f"gpu{gpu}.ecc_uncorrected_errors_total"] = np.zeros(len(made.times))

    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, (*confounders.CALM, *confounders.ANYWHERE))
