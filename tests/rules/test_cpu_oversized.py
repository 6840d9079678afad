"""`cpu_oversized`: when a smaller machine would be enough, and when that is unknown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rules.frame import NodeFrame, RunFrame
from tests.rules import frames as f
from tests.rules.cases import judged
from tests.rules.scenarios import confounders
from tests.rules.scenarios.changes import set_p95
from tests.rules.scenarios.labelled import Scenario
from tests.rules.scenarios.world import Node, World

RULE = "cpu_oversized"

GIB = f.GIB


def used(
    cpu: f.Values, memory_gib: float = 4, key: str = "n1", seconds: float = 300, **of: Any
) -> NodeFrame:
    """Return a node of 8 vCPU and 32 GiB with so much in use."""
    series = f.samples(seconds, host__cpu_busy_pct=cpu, host__memory_used_bytes=memory_gib * GIB)
    return f.node(key, series, of=f.hardware(**of))


def with_gpu(busy: float) -> NodeFrame:
    series = f.samples(
        300, host__cpu_busy_pct=5.0, host__memory_used_bytes=GIB, gpu0__busy_pct=busy
    )
    return f.node(series=series, of=f.hardware(gpus=1))


CPU_ONLY = f.node(series=f.samples(300, host__cpu_busy_pct=5.0))
MEMORY_ONLY = f.node(series=f.samples(300, host__memory_used_bytes=GIB))
GAPS = np.where(np.arange(300) % 3 == 0, 20.0, f.GAP)
SHORT_PEAK = np.where(np.arange(300) < 3, 100.0, 10.0)
HALF_GAPS = np.where(np.arange(300) < 20, 20.0, f.GAP)


@pytest.mark.parametrize(
    ("frame", "state"),
    [
        pytest.param(f.run(used(10)), "fired", id="far too large"),
        pytest.param(f.run(used(29.9)), "fired", id="CPU just below"),
        pytest.param(f.run(used(30)), "passed", id="CPU at the boundary"),
        pytest.param(f.run(used(10, memory_gib=11.2)), "passed", id="memory at the boundary"),
        pytest.param(f.run(used(10, memory_gib=11.1)), "fired", id="memory just below"),
        pytest.param(f.run(used(50, 1, vcpus=2)), "passed", id="one busy core of two"),
        pytest.param(f.run(used(10, 1, vcpus=1)), "passed", id="no smaller machine exists"),
        pytest.param(f.run(used(SHORT_PEAK)), "fired", id="a peak shorter than 5 %"),
        pytest.param(f.run(used(GAPS)), "fired", id="gaps are unknown, not zero"),
        pytest.param(f.run(used(HALF_GAPS)), "insufficient_data", id="20 s known"),
        pytest.param(f.run(used(10, seconds=29)), "insufficient_data", id="29 s seen"),
        pytest.param(f.run(used(10, seconds=30)), "fired", id="30 s seen"),
        pytest.param(f.run(used(10), used(10, key="n2")), "fired", id="two nodes, both large"),
        pytest.param(f.run(used(10), used(60, key="n2")), "passed", id="two nodes, one busy"),
        pytest.param(f.run(used(10), f.node("n2")), "insufficient_data", id="second one unknown"),
        pytest.param(f.run(CPU_ONLY), "insufficient_data", id="no memory"),
        pytest.param(f.run(MEMORY_ONLY), "insufficient_data", id="no CPU"),
        pytest.param(f.run(used(10, vcpus=0)), "insufficient_data", id="vCPUs unknown"),
        pytest.param(f.run(used(10, memory_gib=4, memory_bytes=0)), "insufficient_data", id="size"),
        pytest.param(f.run(), "insufficient_data", id="nothing at all"),
        pytest.param(f.run(with_gpu(60)), "not_applicable", id="GPU in use"),
        pytest.param(f.run(with_gpu(0)), "fired", id="GPU never used"),
        pytest.param(f.run(with_gpu(f.GAP)), "insufficient_data", id="GPU use unknown"),
        pytest.param(f.run(used(10), with_gpu(60)), "not_applicable", id="one node with a GPU"),
    ],
)
def test_it_judges(frame: RunFrame, state: str) -> None:
    assert judged(RULE, frame).verdict.state == state


def test_it_names_what_is_missing_and_on_which_node() -> None:
    verdict = judged(RULE, f.run(used(10), f.node("n2"))).verdict
    assert "CPU utilisation of node n2" in verdict.summary
    assert "used memory of node n2" in verdict.summary
    assert "n1" not in verdict.summary


def test_it_states_the_smallest_size_that_would_have_fitted_the_busiest_node() -> None:
    frame = f.run(used(10, 2), used(20, 5, key="n2"))
    verdict = judged(RULE, frame).verdict
    assert "2 vCPU and 6.0 GiB" in verdict.summary
    assert "8 vCPU" in verdict.summary


def test_it_puts_the_waste_between_halves_of_the_machine_and_its_unneeded_part() -> None:
    verdict = judged(RULE, f.run(used(20, 4, vcpus=16), duration=1600)).verdict
    # 20 % of 16 are 3.2 cores; at 80 % they take 4 of 16 vCPU. Memory takes 4.8 of 32 GiB.
    assert verdict.claimed_seconds_high == pytest.approx(1200)
    assert verdict.claimed_seconds_low == pytest.approx(1200)
    verdict = judged(RULE, f.run(used(10, 9), duration=3200)).verdict
    # 10.8 of 32 GiB: half the machine is the next that fits.
    assert verdict.claimed_seconds_low == pytest.approx(1600)
    assert verdict.claimed_seconds_high == pytest.approx(3200 * (1 - 10.8 / 32))


def test_it_leaves_out_the_cpu_of_warm_up_but_not_its_memory() -> None:
    cpu = np.where(np.arange(300) < 100, 90.0, 10.0)
    memory = np.where(np.arange(300) < 100, 20.0 * GIB, GIB)
    series = f.samples(300, host__cpu_busy_pct=cpu, host__memory_used_bytes=memory)
    late_steps = [f.steps(100, start=100)]
    numbers = judged(RULE, f.run(f.node(series=series, step_tables=late_steps))).numbers
    assert numbers.values["cpu_p95_pct@n1"] == pytest.approx(10)
    assert numbers.values["memory_p99_pct@n1"] == pytest.approx(62.5)


def test_it_judges_a_part_of_a_machine_by_the_run_and_not_by_its_neighbours() -> None:
    own_cores = 0.2 * np.arange(300)
    series = f.samples(
        300,
        host__cpu_busy_pct=95.0,
        tree__cpu_seconds_total=own_cores,
        host__memory_used_bytes=4 * GIB,
    )
    part = f.node(series=series, of=f.hardware(vcpus=64, effective_cpus=4.0))
    judgement = judged(RULE, f.run(part))
    assert judgement.numbers.values["cpu_p95_pct@n1"] == pytest.approx(5)
    assert judgement.verdict.state == "fired"


def test_a_restart_of_the_cpu_counter_is_unknown_and_not_negative() -> None:
    counter = np.concatenate([np.arange(150) * 2.0, np.arange(150) * 2.0])
    series = f.samples(300, tree__cpu_seconds_total=counter, tree__rss_bytes=4 * GIB)
    numbers = judged(RULE, f.run(f.node(series=series))).numbers
    assert numbers.values["cpu_p95_pct@n1"] == pytest.approx(25)
    assert numbers.values["seen_seconds@n1"] == 298


SECONDS = np.arange(600)


def beside(
    others: float, own: float, memory_gib: float = 200.0, rss_gib: float = 2.0, **of: Any
) -> RunFrame:
    """Return a run of so many own cores on 64, of which others keep so many busy."""
    series = f.samples(
        600,
        host__cpu_busy_pct=100 * (own + others) / 64,
        host__memory_used_bytes=memory_gib * GIB,
        tree__cpu_seconds_total=own * SECONDS,
        tree__rss_bytes=rss_gib * GIB,
    )
    hardware = f.hardware(vcpus=64, memory_gib=256, **of)
    return f.run(f.node(series=series, of=hardware))


@pytest.mark.parametrize("own", [0.0005, 0.9, 6.0])
@pytest.mark.parametrize("others", [20.0, 57.0])
def test_neighbours_cores_and_memory_are_not_the_runs(own: float, others: float) -> None:
    verdict = judged(RULE, beside(others, own)).verdict
    assert verdict.state == "fired"
    assert f"{max(1, -(-own // 0.8)):.0f} vCPU and 2.4 GiB would be enough" in verdict.summary
    assert f"up to {others:.1f} cores, which don't count" in verdict.summary


def test_a_run_that_uses_its_machine_is_not_oversized_whoever_else_is_there() -> None:
    assert judged(RULE, beside(5.0, 40.0)).verdict.state == "passed"
    assert judged(RULE, beside(20.0, 2.0, rss_gib=120.0)).verdict.state == "passed"


def test_alone_on_its_machine_it_needs_the_memory_that_no_process_shows() -> None:
    """A dataset in /dev/shm."""
    assert judged(RULE, beside(0.1, 2.0)).verdict.state == "passed"
    assert judged(RULE, beside(0.1, 2.0, memory_gib=3.0)).verdict.state == "fired"


def test_pages_that_processes_share_count_at_most_as_the_machines_memory() -> None:
    """Sixteen data loader workers, each with the same 10 GiB."""
    verdict = judged(RULE, beside(20.0, 2.0, memory_gib=40.0, rss_gib=170.0)).verdict
    assert "48.0 GiB would be enough" in verdict.summary


def test_it_says_that_it_counted_the_whole_machine() -> None:
    assert "the whole machine was counted" in judged(RULE, f.run(used(10))).verdict.summary


def set_up(world: World, factor: float) -> None:
    """Keep the CPU below 30 % and memory below 35 %; in a near miss, one of them is above."""
    world.gpus = 0
    cpu, memory = 30 / factor, 35 / factor
    if factor < 1:
        cpu, memory = [(cpu, 15.0), (12.0, memory)][world.random.integers(2)]
    world.host_memory_pct = memory - 1.2  # its 99th percentile, at a deviation of 0.5

    def change(node: Node) -> None:
        set_p95(node, "host.cpu_busy_pct", cpu)
        cores = node.series["host.cpu_busy_pct"] / 100 * node.vcpus
        node.series["tree.cpu_seconds_total"] = np.cumsum(cores) * world.resolution_seconds

    world.changes.append(change)


SCENARIO = Scenario(RULE, set_up, (*confounders.CALM, *confounders.DATA))


@pytest.mark.parametrize(("waits", "state"), [(0.04, "fired"), (0.06, "insufficient_data")])
def test_a_run_that_waits_for_cores_may_need_more_than_it_used(waits: float, state: str) -> None:
    series = f.samples(
        300,
        tree__cpu_seconds_total=0.4 * np.arange(300),
        tree__run_delay_seconds_total=waits * np.arange(300),
        host__memory_used_bytes=GIB,
    )
    verdict = judged(RULE, f.run(f.node(series=series))).verdict
    assert verdict.state == state
    assert state == "fired" or "waited for a core in 6 % of the time" in verdict.summary
