"""Machines that aren't what they are taken for: no advice that changes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from trimtab.wire import Gpu, NodeFacts

from advisor import machine
from advisor.figures import figures
from advisor.pricing.catalogue import GIB, catalogue
from advisor.sizing.demand import demand_of
from advisor.sizing.doubt import doubts, fitting_types
from rules.frame import RunFrame
from tests.rules import frames as f

A10G = Gpu("NVIDIA A10G", 24 * GIB)


NEBIUS = "gpu-h100-sxm_1gpu-16vcpu-200gb"
"""The machine whose provider calls the GPU H100, which is on several boards."""


def node(instance_type: str, vcpus: int, memory_gib: float, *gpus: Gpu, **more: Any) -> NodeFacts:
    return NodeFacts(
        machine_id="m1",
        provider="aws",
        region="us-east-1",
        instance_type=instance_type,
        vcpus=vcpus,
        effective_cpus=float(vcpus),
        memory_bytes=round(memory_gib * GIB),
        gpus=list(gpus),
        **more,
    )


def run(facts: NodeFacts) -> RunFrame:
    table = f.samples(600, host__cpu_busy_pct=5.0, host__memory_used_bytes=1e9)
    return f.run(f.node(series=table, of=machine.hardware(facts)), duration=600)


@pytest.mark.parametrize(
    ("name", "mib"), [("NVIDIA H100 80GB HBM3", 81_559), ("NVIDIA H100 PCIe", 81_559)]
)
def test_any_board_of_the_named_gpu_is_what_was_declared(name: str, mib: int) -> None:
    assert doubts([node(NEBIUS, 16, 190, Gpu(name, mib * 2**20))]) == []


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        pytest.param(
            node("c5.4xlarge", 2, 3.7), "2 cores were found instead of 16", id="fewer cores"
        ),
        pytest.param(node("c5.large", 2, 15.2), "15.2 GiB of memory", id="more memory"),
        pytest.param(node("g5.xlarge", 4, 15.4), "of which none was seen", id="unseen GPU"),
        pytest.param(node("ml.g5.xlarge", 4, 15.4), "of which none was seen", id="SageMaker's"),
        pytest.param(
            node("c5.xlarge", 4, 7.6, A10G), "1 GPU was found instead of 0", id="a GPU too many"
        ),
        pytest.param(
            node("g5.xlarge", 4, 15.4, Gpu("Tesla T4", 16 * GIB)),
            "Tesla T4 was found",
            id="other model",
        ),
        pytest.param(
            node(NEBIUS, 16, 126, Gpu("NVIDIA H200", 143_771 * 2**20)),
            "NVIDIA H200 was found instead of H100",
            id="another model than a type without a board",
        ),
    ],
)
def test_a_machine_that_contradicts_its_type_blocks_other_machines(
    facts: NodeFacts, why: str
) -> None:
    [doubt] = doubts([facts, facts])
    assert why in doubt
    assert demand_of([facts], figures(run(facts)), 600) is None


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(node("c5.large", 2, 3.7), id="as declared"),
        pytest.param(node("c5.4xlarge", 8, 30.6), id="without hyper-threading"),
        pytest.param(node("t3.nano", 2, 0.4), id="a small machine's kernel takes much"),
        pytest.param(node("g5.12xlarge", 48, 186.7, A10G), id="a container with one of four GPUs"),
        pytest.param(node("c5.large", 0, 0), id="nothing measured"),
        pytest.param(node("my-own-box", 64, 500), id="an unknown type"),
        pytest.param(node("", 64, 500), id="no type"),
    ],
)
def test_what_nothing_contradicts_is_sized(facts: NodeFacts) -> None:
    assert doubts([facts]) == []


def test_gpus_of_the_type_that_were_not_seen_are_unknown_to_the_rules() -> None:
    assert machine.hardware(node("g5.12xlarge", 48, 186.7)).gpus_of_type == 4
    [frame] = run(node("g5.12xlarge", 48, 186.7)).nodes.values()
    assert frame.allocated_gpus() == [0, 1, 2, 3]
    [without] = run(node("c5.large", 2, 3.7)).nodes.values()
    assert without.allocated_gpus() == []


H200 = Gpu("NVIDIA H200", 150_754_820_096)
ON_NEBIUS = replace(
    node("gpu-h100-sxm_1gpu-16vcpu-200gb", 16, 125.9, H200), provider="nebius", region="eu-north1"
)


def test_a_declared_gpu_whose_board_is_not_stated_is_doubted_by_its_chip() -> None:
    [doubt] = doubts([ON_NEBIUS])
    assert doubt.endswith("but NVIDIA H200 was found instead of H100.")
    h100 = Gpu("NVIDIA H100 80GB HBM3", 80 * GIB)
    assert doubts([replace(ON_NEBIUS, gpus=[h100])]) == []


def test_it_names_the_types_that_fit_what_was_measured() -> None:
    every = list(catalogue().values())
    assert fitting_types(ON_NEBIUS, every) == ["gpu-h200-sxm_1gpu-16vcpu-200gb"]
    assert fitting_types(node("g4dn.xlarge", 4, 15.4, A10G), every) == ["g5.xlarge"]
    assert fitting_types(node("g5.xlarge", 4, 15.4, A10G), every) == []
    found = fitting_types(node("c5.4xlarge", 2, 3.7), every)
    assert found
    assert all(doubts([node(name, 2, 3.7)]) == [] for name in found)
