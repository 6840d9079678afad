"""`dataloader`: harmful and harmless numbers of workers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rules.frame import NodeFrame, RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, World

RULE = "dataloader"


def loader(
    workers: float | None,
    wait: float = 0.3,
    counted: f.Values | None = None,
    cpu: float = 50.0,
    cores: float = 8.0,
    ranks: int = 1,
    key: str = "n1",
) -> NodeFrame:
    series: dict[str, Any] = {"host__cpu_busy_pct": cpu}
    if counted is not None:
        series["workers__processes"] = counted
    events = [
        (1.0, "loader", {"workers": workers, "rank": rank})
        for rank in range(ranks)
        if workers is not None
    ]
    steps = [f.steps(300, wait=wait, rank=rank) for rank in range(ranks)]
    hardware = f.hardware(vcpus=8, effective_cpus=cores)
    return f.node(key, f.samples(300, **series), steps, events, of=hardware)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(f.run(loader(2)), "fired", id="too few"),
        pytest.param(f.run(loader(0)), "fired", id="none at all"),
        pytest.param(f.run(loader(5.6)), "passed", id="at the lower boundary"),
        pytest.param(f.run(loader(5)), "fired", id="just below"),
        pytest.param(f.run(loader(16)), "passed", id="at the upper boundary"),
        pytest.param(f.run(loader(17)), "fired", id="just above"),
        pytest.param(f.run(loader(2, wait=0.05)), "passed", id="few, but the loop is happy"),
        pytest.param(f.run(loader(2, wait=0.1)), "fired", id="few, and it waits"),
        pytest.param(f.run(loader(2, wait=f.GAP)), "insufficient_data", id="few, wait unknown"),
        pytest.param(f.run(loader(32, wait=0.01)), "passed", id="many, nobody minds"),
        pytest.param(f.run(loader(2, wait=0.01, cpu=95.0)), "passed", id="few, cores full"),
        pytest.param(f.run(loader(2, ranks=4)), "passed", id="two a rank, eight in all"),
        pytest.param(f.run(loader(2, cores=2.0)), "passed", id="fits the cores it was given"),
        pytest.param(f.run(loader(8, counted=2.0)), "fired", id="counted before declared"),
        pytest.param(f.run(loader(8), loader(1, key="n2")), "fired", id="two nodes, one bad"),
        pytest.param(f.run(loader(None)), "insufficient_data", id="nobody tells"),
        pytest.param(f.run(), "insufficient_data", id="nothing at all"),
        pytest.param(
            f.run(f.node(events=[(0.0, "loader", {"workers": 2})], of=f.hardware(vcpus=0))),
            "insufficient_data",
            id="cores unknown",
        ),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_too_many_workers_on_full_cores_fire_although_the_loop_waits_little() -> None:
    crowded = f.run(loader(32, wait=0.01, cpu=95.0))
    assert judged(RULE, crowded, {"least_waste_pct": 0}).verdict.state == "fired"


def test_the_waste_is_a_part_of_the_wait() -> None:
    verdict = judged(RULE, f.run(loader(2, wait=0.5))).verdict
    assert verdict.claimed_seconds_low == pytest.approx(0.3 * 0.5 * 299)
    assert verdict.claimed_seconds_high == pytest.approx(0.9 * 0.5 * 299)


def test_few_and_many_are_two_findings() -> None:
    few, many = (judged(RULE, f.run(loader(n))).verdict.dedupe_key for n in (1, 40))
    assert few != many


def test_it_answers_to_the_names_of_sagemaker() -> None:
    values = {"min_threshold": 20, "max_threshold": 120}
    assert judged(RULE, f.run(loader(2)), values).verdict.state == "passed"
    assert judged(RULE, f.run(loader(12)), values).verdict.state == "fired"


def test_a_loader_that_only_evaluates_does_not_make_up_for_one_that_trains() -> None:
    node = loader(2)
    evaluates = pd.DataFrame(
        [(1.0, "loader", {"workers": 8, "rank": 0, "phase": "evaluate"})],
        columns=["time_seconds", "kind", "data"],
    )
    both = replace(node, events=pd.concat([node.events, evaluates]))
    assert judged("dataloader", f.run(both)).verdict.state == "fired"


def test_it_tells_how_many_loaders_pin_memory_and_how_far_they_prefetch() -> None:
    declared = [
        {"workers": 2, "rank": 0, "pin_memory": True, "prefetch_factor": 4},
        {"workers": 2, "rank": 1, "pin_memory": False, "prefetch_factor": 2},
        {"workers": 2, "rank": 2},
    ]
    events = [(1.0, "loader", data) for data in declared]
    known = judged(RULE, f.run(f.node("n1", f.samples(60, host__cpu_busy_pct=50.0), (), events)))
    assert known.numbers.by_entity("loaders_count") == {"n1": 2}
    assert known.numbers.by_entity("pinned_loaders_count") == {"n1": 1}
    assert known.numbers.by_entity("prefetch_count") == {"n1": 2}
    unknown = judged(RULE, f.run(loader(2))).numbers
    assert unknown.by_entity("loaders_count") == unknown.by_entity("prefetch_count") == {}


def set_up(world: World, factor: float) -> None:
    """Use workers for fewer than 70 % or more than 200 % of the cores; a wait of 10 % makes it
    matter.
    """
    world.vcpus = 64
    few = world.random.random() < 0.5
    workers = 0.7 / factor * world.vcpus if few else 2.0 * factor * world.vcpus
    world.wait_share = world.random.uniform(0.13, 0.3)
    if factor < 1 and world.random.random() < 0.5:
        workers, world.wait_share = 0.3 * world.vcpus, 0.1 * factor
    counted = world.random.random() < 0.5
    number = int(workers) if few == (factor > 1) else int(np.ceil(workers))

    def change(node: Node) -> None:
        node.events.append((world.begin_seconds, "loader", {"workers": number, "rank": 0}))
        if counted:
            node.series["workers.processes"] = np.full(len(node.times), float(number))

    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, confounders.ON_GPU)
