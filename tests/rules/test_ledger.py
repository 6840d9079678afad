"""The waste ledger: exact sums, one label at a time, and the published case to the cent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.frame import NodeFrame, RunFrame
from rules.ledger import WasteLedger, held_microseconds, ledger
from rules.ledger_labels import LABELS, NO_WASTE
from rules.rule import Values
from tests.rules import frames as f
from tests.rules.scenarios.labelled import Scenario, labelled
from tests.rules.scenarios.registry import SCENARIOS
from tests.rules.test_properties import QUICK, runs
from tests.sample_data.received import frame_of, received
from webapp.sample_data.histories import sample_runs

TICKS = np.arange(1000)
Events = list[tuple[float, str, dict[str, Any]]]


def gpu_node(
    *busy: f.Values,
    steps: pd.DataFrame | None = None,
    events: Events | None = None,
    key: str = "n1",
    resolution: float = 1.0,
    **more: Any,
) -> NodeFrame:
    series: dict[str, Any] = {f"gpu{n}__busy_pct": values for n, values in enumerate(busy)}
    table = f.samples(1000, resolution, **series, **more)
    tables = [steps] if steps is not None else []
    return f.node(key, table, tables, events or [], of=f.hardware(gpus=len(busy)))


def seconds(
    *nodes: NodeFrame,
    final: bool = True,
    set_to: Mapping[str, Values] | None = None,
    resolution: float = 1.0,
) -> dict[str, float]:
    frame = replace(f.run(*nodes, duration=1000, resolution=resolution), final=final)
    return ledger(frame, set_to).node_seconds()


def phase(name: str, start: float, end: float) -> Events:
    data = {"phase": name, "rank": 0}
    return [(start, "phase_begin", data), (end, "phase_end", data)]


def check_sums(frame: RunFrame, found: WasteLedger) -> None:
    for node in frame.nodes.values():
        held = sum(end - start for start, end in held_microseconds(node, frame))
        by_gpu: dict[int | None, int] = {}
        for entry in found.entries:
            assert entry.label in LABELS
            assert entry.microseconds > 0
            if entry.node == node.key:
                by_gpu[entry.gpu] = by_gpu.get(entry.gpu, 0) + entry.microseconds
        expected: list[int | None] = [*node.allocated_gpus()] or [None]
        assert by_gpu == (dict.fromkeys(expected, held) if held else {})
        assert sum(found.shares(node.key).values()) == (1 if held else 0)


HELD = st.lists(st.tuples(st.floats(0, 200), st.floats(0, 200)), max_size=3)


@given(frame=runs(), held=HELD)
@QUICK
def test_labels_add_up_to_the_time_that_each_node_was_held_to_the_microsecond(
    frame: RunFrame, held: list[tuple[float, float]]
) -> None:
    nodes = {key: replace(n, intervals=tuple(held)) for key, n in frame.nodes.items()}
    for each in (frame, replace(frame, nodes=nodes), replace(frame, final=False)):
        check_sums(each, ledger(each))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.rule_id)
def test_labels_add_up_for_every_kind_of_run(scenario: Scenario) -> None:
    for run in labelled(scenario, seed=5, count=1):
        check_sums(run.frame, ledger(run.frame))


def test_good_work_is_effective_and_nothing_else() -> None:
    assert seconds(gpu_node(100.0, steps=f.steps(1000))) == {"effective": 1000}


@pytest.mark.parametrize("resolution", [0.5, 1.0, 2.0])
def test_each_label_has_its_time_on_any_grid(resolution: float) -> None:
    events = [
        *phase("evaluate", 400, 480),
        *phase("checkpoint", 480, 500),
    ]
    steps = pd.concat(
        [
            f.steps(300, start=100),
            f.steps(100, start=500, wait=0.25),
            f.steps(50, start=620),
            f.steps(50, start=690),
            f.steps(50, start=760),
            f.steps(90, start=830),
        ]
    )
    gaps = ((600, 620), (670, 690), (740, 760), (810, 830))
    busy = np.where(TICKS < 100, 0.0, 100.0)
    busy[400:480], busy[480:500], busy[500:600] = 60.0, 0.0, 50.0
    for start, end in gaps:
        busy[start:end] = 0.0
    busy[920:], busy[350:360] = 0.0, f.GAP
    cells = busy[np.arange(0, 1000, resolution).astype(int)]
    node = gpu_node(cells, steps=steps, events=events, resolution=resolution)
    assert seconds(node, resolution=resolution) == pytest.approx(
        {
            "gap": 10,
            "initialise": 100,
            "idle_tail": 80,
            "checkpoint": 20,
            "evaluation": 80,
            "epoch_gap": 80,
            "data_stall": 25,
            "effective": 580,
            "gpu_idle": 25,
        }
    )


def test_an_unused_gpu_is_unused_all_along_and_only_itself() -> None:
    busy = np.where(TICKS < 200, 0.0, 100.0)
    label_seconds = seconds(gpu_node(busy, 0.0, steps=f.steps(800, start=200)))
    assert label_seconds == {"unused_gpu": 500, "initialise": 100, "effective": 400}


def test_a_gpu_that_works_while_the_loop_waits_is_not_stalled() -> None:
    steps = f.steps(1000, wait=0.4)
    assert seconds(gpu_node(95.0, steps=steps))["data_stall"] == pytest.approx(50)
    assert seconds(gpu_node(30.0, steps=steps))["data_stall"] == pytest.approx(400)


def test_waits_beside_a_checkpoint_stall_only_the_time_that_it_leaves() -> None:
    """Each five seconds have three of steps that wait for 0.4 s, and two of a checkpoint."""
    starts = np.arange(0, 1000, 5.0)
    steps = pd.concat([f.steps(3, wait=0.4, start=at) for at in starts], ignore_index=True)
    events = [
        (at + 3 + 2 * n, kind, {"phase": "checkpoint", "rank": 0})
        for at in starts
        for n, kind in enumerate(("phase_begin", "phase_end"))
    ]
    labels = seconds(gpu_node(40.0, steps=steps, events=events))
    assert labels["checkpoint"] == pytest.approx(400)
    assert labels["data_stall"] == pytest.approx(240)


def test_steps_that_came_summed_up_stall_throughout_their_second() -> None:
    summed = f.steps(1000).assign(duration_seconds=0.02, data_wait_seconds=0.008, count=50)
    assert seconds(gpu_node(50.0, steps=summed))["data_stall"] == pytest.approx(400)


@pytest.mark.parametrize("resolution", [0.5, 1.0, 2.0])
def test_throttling_and_empty_kernels_have_labels_of_their_own(resolution: float) -> None:
    counter = np.cumsum(np.full(round(1000 / resolution), 3e8 * resolution))
    hot = gpu_node(100.0, gpu0__throttled_thermal_ns_total=counter, resolution=resolution)
    assert seconds(hot, resolution=resolution)["throttled"] == pytest.approx(300, rel=0.01)
    empty = gpu_node(95.0, gpu0__sm_active_pct=20.0, resolution=resolution)
    assert seconds(empty, resolution=resolution) == pytest.approx({"low_sm": 750, "effective": 250})


@pytest.mark.parametrize("unit", ["dram", "tensor"])
def test_a_gpu_whose_memory_or_tensor_cores_are_busy_is_not_half_empty(unit):
    busy = {f"gpu0__{unit}_active_pct": 85.0}
    full = gpu_node(95.0, gpu0__sm_active_pct=20.0, **busy)
    assert seconds(full) == pytest.approx(seconds(gpu_node(95.0)))
    some = gpu_node(95.0, gpu0__sm_active_pct=20.0, **dict.fromkeys(busy, 40.0))
    assert seconds(some)["low_sm"] == pytest.approx(500)
    unknown = gpu_node(95.0, **busy)
    assert seconds(unknown) == pytest.approx(seconds(gpu_node(95.0)))


def test_a_phase_that_has_not_ended_has_the_label_until_now() -> None:
    for name, label in (("evaluate", "evaluation"), ("communication", "communication")):
        (begun, _) = phase(name, 900, 1000)
        node = gpu_node(100.0, steps=f.steps(900), events=[begun])
        assert seconds(node, final=False) == {label: 100, "effective": 900}, name


def test_a_hang_is_hung_and_a_gap_comes_before_everything() -> None:
    busy = np.where((TICKS >= 200) & (TICKS < 900), 0.0, 100.0)
    steps = pd.concat([f.steps(200), f.steps(100, start=900)])
    node = gpu_node(busy, steps=steps, host__cpu_busy_pct=2.0)
    assert seconds(node)["hung"] == pytest.approx(700, abs=1)
    samples = node.samples.copy()
    samples.loc[:49] = f.GAP
    assert seconds(replace(node, samples=samples))["gap"] == 50


def test_it_means_by_a_label_what_the_rule_s_parameters_say() -> None:
    """Steps, a hang of 400 s, steps with pauses of 4 s, and 100 s at 5 % of a GPU."""
    busy = np.where((TICKS >= 200) & (TICKS < 600), 0.0, 100.0)
    busy[700:704], busy[900:] = 0.0, 5.0
    loop = [f.steps(200), f.steps(100, start=600), f.steps(196, start=704)]
    node = gpu_node(busy, steps=pd.concat(loop), host__cpu_busy_pct=2.0)
    default = seconds(node)
    working = {"effective": 501, "gpu_idle": 95}
    assert default == pytest.approx({"epoch_gap": 404, **working})

    def with_(rule: str, **values: float) -> dict[str, float]:
        return seconds(node, set_to={rule: values})

    assert with_("hung", idle_seconds=300)["hung"] == pytest.approx(400, abs=1)
    assert with_("idle_tail", idle_gpu_pct=6)["idle_tail"] == pytest.approx(100, abs=1)
    assert with_("epoch_gaps", median_steps=5)["epoch_gap"] == pytest.approx(400)
    assert with_("hung", spin_seconds=200) == default
    idling = gpu_node(100.0, 3.0, steps=f.steps(1000))
    assert seconds(idling) == pytest.approx({"effective": 515, "gpu_idle": 485})
    assert seconds(idling, set_to={"unused_gpus": {"unused_pct": 4}})["unused_gpu"] == 500


@pytest.mark.parametrize("resolution", [0.5, 1.0, 2.0])
def test_without_gpus_idle_cores_are_unused(resolution: float) -> None:
    table = f.samples(1000, resolution, host__cpu_busy_pct=25.0)
    node = f.node(series=table, step_tables=[f.steps(1000)])
    expected = {"effective": 250, "unused_cores": 750}
    assert seconds(node, resolution=resolution) == pytest.approx(expected)


def test_what_is_not_known_is_a_gap_or_unclassified_and_never_waste() -> None:
    nothing = f.node(of=f.hardware(gpus=2))
    assert seconds(nothing) == {"unclassified": 1000}
    ends_early = gpu_node(100.0)
    early = replace(ends_early, samples=ends_early.samples[ends_early.samples.index < 700])
    assert seconds(early) == {"gap": 300, "effective": 700}
    assert {"gap", "effective", "unclassified"} == NO_WASTE


def test_a_running_run_that_has_not_begun_is_starting_and_has_no_tail_yet() -> None:
    assert seconds(gpu_node(0.0), final=False) == {"initialise": 1000}
    assert seconds(gpu_node(0.0), final=True) == {"unused_gpu": 1000}
    busy = np.where(TICKS < 700, 100.0, 0.0)
    live = seconds(gpu_node(busy, host__cpu_busy_pct=40.0), final=False)
    assert live == {"effective": 700, "gpu_idle": 300}


def test_only_the_time_counts_for_which_a_node_was_held() -> None:
    node = replace(gpu_node(100.0), intervals=((100.25, 300.5), (250.0, 400.0), (600.0, 650.125)))
    run_ledger = ledger(f.run(node, duration=1000))
    held = 299_750_000 + 50_125_000
    assert run_ledger.node_microseconds("n1") == held
    assert sum(entry.microseconds for entry in run_ledger.entries) == held
    assert run_ledger.shares("n1") == {"effective": Fraction(1)}


def test_the_time_of_all_nodes_adds_up_and_a_node_that_was_never_held_adds_none() -> None:
    nodes = [gpu_node(100.0, key=key) for key in ("a", "b", "c", "d")]
    nodes[1] = replace(nodes[1], intervals=((700.0, 700.0),))
    nodes[2] = replace(nodes[2], intervals=((20.0, 20.0), (300.0, 400.0)))
    assert seconds(*nodes) == {"effective": 2100}
    found = ledger(f.run(*nodes, duration=1000))
    assert found.nodes == ("a", "c", "d")
    assert found.node_microseconds("b") == 0


def test_the_published_case_costs_what_it_cost_label_by_label(tmp_path: Any) -> None:
    run = sample_runs(datetime(2026, 3, 14, 15, 9, tzinfo=UTC))[0]
    run_ledger = ledger(frame_of(received(run), tmp_path, 1.0))
    usd = dict.fromkeys(LABELS, Decimal(0))
    for node in run_ledger.nodes:
        held = Decimal(run_ledger.node_microseconds(node)) / 1_000_000
        cost = held / 3600 * Decimal("14.688")
        for label, share in run_ledger.shares(node).items():
            usd[label] += cost * share.numerator / share.denominator
    assert sum(usd.values(), Decimal(0)).quantize(Decimal("1e-9")) == Decimal("6.15672")
    assert usd["unused_gpu"].quantize(Decimal("1e-9")) == Decimal("6.15672") / 4
    # Nine of twelve GPUs, 44 % of the time, to the second in which the first step began.
    initialise = Decimal("6.15672") * 9 / 12 * Decimal("0.44")
    assert usd["initialise"] == pytest.approx(initialise, rel=Decimal("1e-6"))
    assert usd["data_stall"] > usd["effective"] / 4
