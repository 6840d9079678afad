"""`channels_last`: convolutions in 16 bits that are stored channel by channel, on a busy GPU."""

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

RULE = "channels_last"
HALF = {"amp": "bfloat16", "parameters": "float32", "tf32": False, "cudnn_tf32": True}
FULL = HALF | {"amp": "off"}
NCHW = {"convolutions": 53, "channels_last": 0}
NHWC = {"convolutions": 53, "channels_last": 53}
MIXED = {"convolutions": 20, "channels_last": 10}
MOSTLY_NCHW = {"convolutions": 20, "channels_last": 9}
VISION_TRANSFORMER = {"convolutions": 1, "channels_last": 0}
FEW = {"convolutions": 7, "channels_last": 0}


def trained(
    format_: dict[str, Any] | None = NCHW,
    precision: dict[str, Any] | None = HALF,
    busy: f.Values = 90.0,
    key: str = "n1",
    *more: tuple[float, str, dict[str, Any]],
) -> NodeFrame:
    """Return a node of one GPU whose training of 600 s told this."""
    told = [
        (1.0, kind, {"rank": 0} | data)
        for kind, data in (("memory_format", format_), ("precision", precision))
        if data is not None
    ]
    return f.node(
        key,
        f.samples(600, gpu0__busy_pct=busy),
        [f.steps(600)],
        [*told, *more],
        f.hardware(gpus=1),
    )


LOADED_LATER = (300.0, "memory_format", {"rank": 0} | NHWC)
COMPILED = (2.0, "compile", {"rank": 0, "seconds": 3.0, "count": 2})


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(f.run(trained()), "fired", id="NCHW in bfloat16"),
        pytest.param(f.run(trained(NHWC)), "passed", id="NHWC"),
        pytest.param(f.run(trained(MIXED)), "passed", id="half of them"),
        pytest.param(f.run(trained(MOSTLY_NCHW)), "fired", id="less than half of them"),
        pytest.param(f.run(trained(FEW)), "not_applicable", id="seven convolutions"),
        pytest.param(f.run(trained(NCHW | {"convolutions": 8})), "fired", id="eight of them"),
        pytest.param(f.run(trained(VISION_TRANSFORMER)), "not_applicable", id="one convolution"),
        pytest.param(f.run(trained(precision=FULL)), "not_applicable", id="float32"),
        pytest.param(
            f.run(trained(precision=FULL | {"parameters": "float16"})), "fired", id="float16 itself"
        ),
        pytest.param(f.run(trained(busy=59.9)), "passed", id="a GPU that waits"),
        pytest.param(f.run(trained(busy=60.0)), "fired", id="at the boundary"),
        pytest.param(f.run(trained(None)), "insufficient_data", id="format unknown"),
        pytest.param(f.run(trained(precision=None)), "insufficient_data", id="precision unknown"),
        pytest.param(f.run(trained(busy=f.GAP)), "insufficient_data", id="utilisation unknown"),
        pytest.param(
            f.run(trained(NCHW, HALF, 90.0, "n1", COMPILED)), "not_applicable", id="compiled"
        ),
        pytest.param(
            f.run(trained(NCHW, HALF, 90.0, "n1", LOADED_LATER)), "passed", id="changed since"
        ),
        pytest.param(f.run(trained(), trained(busy=10.0, key="n2")), "fired", id="one node of two"),
        pytest.param(f.run(f.node()), "not_applicable", id="no GPU"),
        pytest.param(f.run(), "not_applicable", id="nothing at all"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_it_needs_the_patience_of_a_long_run_and_a_quarter_of_a_short_one() -> None:
    def seen(seconds: int, of: float) -> RunFrame:
        values = np.where(np.arange(600) < seconds, 90.0, f.GAP)
        return f.run(trained(busy=values), duration=of)

    assert judged(RULE, seen(60, 2400.0)).verdict.state == "fired"
    assert judged(RULE, seen(59, 2400.0)).verdict.state == "insufficient_data"


def test_it_claims_a_share_of_the_busy_time_of_the_busy_gpus() -> None:
    busy = trained(busy=80.0)
    both = judged(RULE, f.run(busy, trained(busy=20.0, key="n2"))).verdict
    assert both.claims[0].labels == ("effective",)
    assert both.claimed_seconds_low == pytest.approx(0.18 * 0.8 * 600 / 2)
    assert both.claimed_seconds_high == pytest.approx(0.5 * 0.8 * 600 / 2)


def test_what_was_measured_on_a_gpu_lies_in_what_it_promises() -> None:
    """2,419 and 4,695 images a second of ResNet-50 in bfloat16 on an H200."""
    (claim,) = judged(RULE, f.run(trained())).verdict.claims
    assert claim.low <= 1 - 2418.61 / 4695.38 <= claim.high
    assert claim.high <= 3 * claim.low


def set_up(world: World, factor: float) -> None:
    """Compute in 16 bits with convolutions in NCHW; in a near miss most are in NHWC."""
    total = int(world.random.integers(8, 200))
    last = 0 if factor > 1 else total - int(world.random.integers(0, total // 2))
    told = {"convolutions": total, "channels_last": last}

    def change(node: Node) -> None:
        node.events.append((world.begin_seconds, "memory_format", {"rank": 0} | told))
        node.events.append((world.begin_seconds, "precision", {"rank": 0} | HALF))

    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, (*confounders.CALM, *confounders.ANYWHERE))
