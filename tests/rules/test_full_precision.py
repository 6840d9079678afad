"""`full_precision`: float32 without TF32, on a busy GPU whose tensor cores could do it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rules.frame import GpuHardware, NodeFrame, RunFrame
from rules.gpu_generations import has_tf32
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, World

RULE = "full_precision"
PLAIN = {"amp": "off", "parameters": "float32", "tf32": False, "cudnn_tf32": True}
VISION = {"convolutions": 53, "channels_last": 0}
TEXT = {"convolutions": 0, "channels_last": 0}
A100 = "NVIDIA A100-SXM4-80GB"


def trained(
    precision: dict[str, Any] | None = PLAIN,
    model: str = A100,
    busy: f.Values = 90.0,
    format_: dict[str, Any] | None = TEXT,
    **series: f.Values,
) -> NodeFrame:
    told = [
        (1.0, kind, {"rank": 0} | data)
        for kind, data in (("precision", precision), ("memory_format", format_))
        if data is not None
    ]
    card = GpuHardware(model, 80 * f.GIB)
    samples = f.samples(600, gpu0__busy_pct=busy, **series)
    return f.node("n1", samples, [f.steps(600)], told, replace(f.hardware(), gpus=(card,)))


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(f.run(trained()), "fired", id="float32 without TF32"),
        pytest.param(f.run(trained(PLAIN | {"tf32": True})), "passed", id="TF32"),
        pytest.param(f.run(trained(PLAIN | {"amp": "bfloat16"})), "passed", id="autocast"),
        pytest.param(f.run(trained(PLAIN | {"parameters": "float16"})), "passed", id="float16"),
        pytest.param(f.run(trained(format_=VISION)), "passed", id="convolutions in TF32"),
        pytest.param(
            f.run(trained(PLAIN | {"cudnn_tf32": False}, format_=VISION)),
            "fired",
            id="convolutions without TF32",
        ),
        pytest.param(f.run(trained(model="Tesla V100-SXM2-16GB")), "not_applicable", id="V100"),
        pytest.param(f.run(trained(model="Tesla T4")), "not_applicable", id="T4"),
        pytest.param(f.run(trained(model="New 9000")), "insufficient_data", id="unknown model"),
        pytest.param(f.run(trained(busy=60.0)), "fired", id="busy at the boundary"),
        pytest.param(f.run(trained(busy=59.0)), "passed", id="a GPU that waits"),
        pytest.param(f.run(trained(format_=None)), "insufficient_data", id="convolutions unknown"),
        pytest.param(
            f.run(trained(PLAIN | {"cudnn_tf32": False}, format_=None)),
            "fired",
            id="convolutions unknown, but not in TF32",
        ),
        pytest.param(f.run(trained(None)), "insufficient_data", id="precision unknown"),
        pytest.param(
            f.run(trained(PLAIN | {"tf32": None})), "insufficient_data", id="TF32 unknown"
        ),
        pytest.param(f.run(trained(busy=f.GAP)), "insufficient_data", id="utilisation unknown"),
        pytest.param(f.run(f.node()), "not_applicable", id="no GPU"),
        pytest.param(f.run(), "not_applicable", id="nothing at all"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


@pytest.mark.parametrize(
    ("model", "has"),
    [
        ("NVIDIA H200", True),
        ("NVIDIA A10G", True),
        ("NVIDIA GeForce RTX 4090", True),
        ("NVIDIA RTX 6000 Ada Generation", True),
        ("NVIDIA L40S", True),
        ("NVIDIA GeForce RTX 2080 Ti", False),
        ("NVIDIA TITAN RTX", False),
        ("Quadro RTX 8000", False),
        ("Tesla K80", False),
        ("AMD Instinct MI300X", False),
        ("NVIDIA Q900", None),
        ("", None),
    ],
)
def test_a_generation_is_known_by_its_name(model: str, has: bool | None) -> None:
    assert has_tf32(model) is has


@pytest.mark.parametrize(
    ("slow", "fast"),
    [(879.41, 2124.54), (48926.19, 111112.23), (879.41, 2311.59), (48926.19, 137757.92)],
)
def test_what_was_measured_on_a_gpu_lies_in_what_it_promises(slow: float, fast: float) -> None:
    """ResNet-50 and GPT-2 on an H200, with TF32 and in bfloat16."""
    (claim,) = judged(RULE, f.run(trained())).verdict.claims
    assert claim.low <= 1 - slow / fast <= claim.high
    assert claim.high <= 3 * claim.low


def test_it_names_the_activity_of_tensor_cores_where_it_is_known() -> None:
    known = judged(RULE, f.run(trained(gpu0__tensor_active_pct=1.5))).verdict
    assert "Tensor cores were 2 % active." in known.summary
    assert "Tensor cores" not in judged(RULE, f.run(trained())).verdict.summary


def test_it_claims_the_busy_time() -> None:
    verdict = judged(RULE, f.run(trained(busy=80.0))).verdict
    assert verdict.claimed_seconds_high == pytest.approx(0.65 * 0.8 * 600)


def set_up(world: World, factor: float) -> None:
    """Compute in float32 without TF32; in a near miss with it, or in 16 bits."""
    told = dict(PLAIN)
    if factor < 1:
        told |= {"tf32": True} if world.random.random() < 0.5 else {"amp": "bfloat16"}

    def change(node: Node) -> None:
        node.events.append((world.begin_seconds, "precision", {"rank": 0} | told))
        node.events.append((world.begin_seconds, "memory_format", {"rank": 0} | TEXT))

    world.gpu_model = A100
    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, (*confounders.CALM, *confounders.ANYWHERE))
