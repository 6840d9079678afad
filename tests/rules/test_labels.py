"""The label of each moment of a GPU: if two labels apply at once, and where each begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from rules.frame import EVENT_COLUMNS, NodeFrame
from rules.ledger import ledger
from tests.rules import frames as f
from tests.rules.restarted import process
from tests.rules.test_ledger import TICKS, gpu_node, phase, seconds

INSIDE = (TICKS >= 400) & (TICKS < 500)
"""The 100 s in which two labels hold at once."""


def works_but(inside: float, **more: Any) -> NodeFrame:
    """Return a node whose GPU is busy all the time, with a step a second, but `inside` % within
    those 100 s.
    """
    return gpu_node(np.where(INSIDE, inside, 100.0), steps=f.steps(1000), **more)


def counter(per_second: float) -> np.ndarray[Any, Any]:
    """Return a counter that rises within the 100 s only."""
    return np.cumsum(np.where(INSIDE, per_second, 0.0))


def both(first: str, second: str) -> list[tuple[float, str, dict[str, Any]]]:
    return [*phase(first, 400, 500), *phase(second, 400, 500)]


def waits(events: list[tuple[float, str, dict[str, Any]]] | None = None) -> NodeFrame:
    """Return a node with steps that only wait within the 100 s, in which the GPU idles."""
    loop = [f.steps(400), f.steps(100, start=400, wait=1.0), f.steps(500, start=500)]
    busy = np.where(INSIDE, 0.0, 100.0)
    return gpu_node(busy, steps=pd.concat(loop), events=events)


HOT, EMPTY = {"gpu0__throttled_thermal_ns_total": counter(1e9)}, np.where(INSIDE, 0.0, 100.0)


@pytest.mark.parametrize(
    ("node", "label"),
    [
        pytest.param(works_but(0.0, events=both("checkpoint", "evaluate")), "checkpoint"),
        pytest.param(works_but(0.0, events=both("checkpoint", "communication")), "checkpoint"),
        pytest.param(works_but(100.0, events=both("evaluate", "communication")), "evaluation"),
        pytest.param(waits(phase("evaluate", 400, 500)), "evaluation"),
        pytest.param(waits(phase("communication", 400, 500)), "data_stall"),
        pytest.param(
            works_but(100.0, events=phase("communication", 400, 500), **HOT), "communication"
        ),
        pytest.param(works_but(100.0, gpu0__sm_active_pct=EMPTY, **HOT), "throttled"),
        pytest.param(works_but(100.0, gpu0__sm_active_pct=EMPTY), "low_sm"),
        pytest.param(works_but(f.GAP, events=both("checkpoint", "evaluate")), "gap"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_first_label_has_the_time(node: NodeFrame, label: str) -> None:
    assert seconds(node) == pytest.approx({label: 100, "effective": 900}, abs=1)


@pytest.mark.parametrize(
    ("reason", "throttled"),
    [("thermal", 100), ("power_brake", 100), ("power_cap", 0), ("sync", 0)],
)
def test_heat_and_the_power_brake_throttle_and_running_at_the_power_cap_is_normal(
    reason: str, throttled: float
) -> None:
    held_down = {f"gpu0__throttled_{reason}_ns_total": counter(1e9)}
    row = seconds(works_but(100.0, **held_down)).get("throttled", 0)
    assert row == pytest.approx(throttled, abs=1)


def test_two_reasons_at_once_throttle_no_more_than_all_of_the_time() -> None:
    more = {f"gpu0__throttled_{name}_ns_total": counter(7e8) for name in ("thermal", "power_brake")}
    assert seconds(works_but(100.0, **more))["throttled"] == pytest.approx(100, abs=1)


@pytest.mark.parametrize(
    ("busy_pct", "sm_active_pct", "low_sm", "gpu_idle"),
    [
        (90, 0, 100, 0),
        (90, 40, 50, 0),
        (90, 49, 38.75, 0),
        (90, 50, 0, 10),
        (90, 60, 0, 10),
        (80, 40, 50, 0),
        (79, 40, 0, 21),
        (60, 20, 35, 40),
        (60, 30, 0, 40),
        (90, f.GAP, 0, 10),
        (f.GAP, 70, 0, 30),
    ],
)
def test_a_busy_gpu_with_few_active_sms_wastes_what_lacks_to_four_fifths_of_them(
    busy_pct: float, sm_active_pct: float, low_sm: float, gpu_idle: float
) -> None:
    """The GPU is idle in the rest of the time, in which it isn't busy at all."""
    sm = np.where(INSIDE, sm_active_pct, 90.0)
    label_seconds = seconds(works_but(busy_pct, gpu0__sm_active_pct=sm))
    wasted = {"low_sm": low_sm, "gpu_idle": gpu_idle}
    expected = {"effective": 1000 - low_sm - gpu_idle, **wasted}
    assert label_seconds == pytest.approx({k: v for k, v in expected.items() if v})


@pytest.mark.parametrize("with_steps", [True, False])
@pytest.mark.parametrize("busy_pct", [5.0, 9.0, 10.0, 11.0, 15.0, 60.0])
@pytest.mark.parametrize("resolution", [0.5, 10.0])
def test_a_gpu_is_effective_for_as_long_as_it_is_busy(
    resolution: float, busy_pct: float, with_steps: bool
) -> None:
    steps = f.steps(1000) if with_steps else None
    node = gpu_node(busy_pct, 100.0, steps=steps, resolution=resolution)
    expected = {"effective": 500 + 5 * busy_pct, "gpu_idle": 500 - 5 * busy_pct}
    assert seconds(node, resolution=resolution) == pytest.approx(expected)


def test_a_throttled_gpu_worked_less_and_was_as_idle() -> None:
    """60 % busy, and throttled for 30 % of the time in which it worked."""
    label_seconds = seconds(works_but(60.0, gpu0__throttled_thermal_ns_total=counter(3e8)))
    expected = {"throttled": 30, "effective": 930, "gpu_idle": 40}
    assert label_seconds == pytest.approx(expected, abs=0.5)


@pytest.mark.parametrize("resolution", [0.5, 1.0, 2.0])
def test_a_wait_that_the_gpu_shows_a_moment_later_stalls_it_all_the_same(
    resolution: float,
) -> None:
    """Each second, the loop waits in its first half, and the GPU idles in its second half."""
    halves = np.where(np.arange(2000) % 2, 0.0, 100.0)
    cells = halves.reshape(-1, round(2 * resolution)).mean(axis=1)
    node = gpu_node(cells, steps=f.steps(1000, wait=0.4), resolution=resolution)
    label_seconds = seconds(node, resolution=resolution)
    label_seconds.pop("idle_tail", None)
    expected = {"data_stall": 400, "effective": 500, "gpu_idle": 100}
    assert label_seconds == pytest.approx(expected, abs=1)


def rests(since: float, until: float, busy: float = 100.0) -> NodeFrame:
    """Return a node with no step, no GPU and hardly a core from `since` to `until`; else a step a
    second.
    """
    inside = (since <= TICKS) & (until > TICKS)
    loop = [f.steps(int(since)), f.steps(int(1000 - until), start=until)]
    return gpu_node(
        np.where(inside, 0.0, busy),
        steps=pd.concat([table for table in loop if len(table)]),
        host__cpu_busy_pct=np.where(inside, 2.0, 60.0),
    )


def with_events(node: NodeFrame, *events: tuple[float, str, dict[str, Any]]) -> NodeFrame:
    return replace(node, events=pd.DataFrame(list(events), columns=list(EVENT_COLUMNS)))


def test_an_idle_end_of_a_run_that_was_killed_is_its_tail_and_not_hung() -> None:
    ended = (1000.0, "session_end", {"state": "failed", "exit_code": 1})
    label_seconds = seconds(with_events(rests(300, 1000), ended))
    assert label_seconds == pytest.approx({"effective": 300, "idle_tail": 700}, abs=1)


def test_a_restart_that_never_worked_and_rests_to_the_end_is_the_tail_and_no_start_up() -> None:
    node = with_events(rests(300, 1000), process(0), process(320, restarts=1))
    label_seconds = seconds(replace(node, intervals=((0.0, 1000.0),)))
    assert label_seconds["idle_tail"] + label_seconds.get("restart", 0) == pytest.approx(700, abs=1)
    assert "initialise" not in label_seconds


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("checkpoint", {"seconds": 50}),
        ("metric", {"name": "loss", "value": 0.5}),
        ("phase_end", {"phase": "communication", "rank": 0}),
    ],
)
def test_what_the_training_tells_cuts_a_hang(kind: str, data: dict[str, Any]) -> None:
    assert seconds(rests(200, 900))["hung"] == pytest.approx(700, abs=1)
    assert "hung" not in seconds(with_events(rests(200, 900), (400.0, kind, data)))


def test_until_the_first_step_a_run_starts_even_if_its_gpu_rests_again_by_then() -> None:
    """A twentieth of the GPU until 700, nothing from then on, and steps from 800."""
    node = gpu_node(np.where(TICKS < 700, 5.0, 0.0), steps=f.steps(200, start=800))
    assert seconds(node) == pytest.approx({"initialise": 800, "gpu_idle": 200}, abs=1)


def test_what_is_not_known_of_an_unused_gpu_is_a_gap() -> None:
    assert seconds(gpu_node(np.where(INSIDE, f.GAP, 0.0))) == {"gap": 100, "unused_gpu": 900}


def test_a_gap_between_the_steps_of_a_rank_is_one_though_another_rank_waits_in_it() -> None:
    first = [f.steps(400), f.steps(500, start=500)]
    second = [f.steps(400, rank=1), f.steps(100, start=400, rank=1, wait=1.0)]
    node = gpu_node(np.where(INSIDE, 0.0, 100.0), steps=pd.concat([*first, *second]))
    assert seconds(node) == pytest.approx({"epoch_gap": 100, "effective": 900}, abs=1)


def test_a_gpu_is_unused_before_the_end_too_once_another_one_works() -> None:
    assert seconds(gpu_node(100.0, 0.0), final=False) == {"unused_gpu": 500, "effective": 500}


def test_only_a_run_with_gpus_starts_until_it_uses_them() -> None:
    node = f.node(series=f.samples(1000, host__cpu_busy_pct=25.0))
    assert seconds(node, final=False) == pytest.approx({"effective": 250, "unused_cores": 750})


def test_ranks_that_wait_at_the_same_time_stall_their_node_once() -> None:
    loop = [f.steps(1000, wait=0.4), f.steps(1000, wait=0.2, rank=1)]
    label_seconds = seconds(gpu_node(30.0, steps=pd.concat(loop)))
    assert label_seconds["data_stall"] == pytest.approx(300)


def test_no_step_waits_for_longer_than_it_lasts() -> None:
    loop = [f.steps(400), f.steps(1, start=400, wait=50.0), f.steps(599, start=401)]
    node = gpu_node(np.where(INSIDE, 0.0, 100.0), steps=pd.concat(loop))
    assert seconds(node)["data_stall"] == pytest.approx(1)


@pytest.mark.parametrize(("count", "stalled"), [(1, 0), (2, 198), (10, 198)])
def test_only_a_single_step_waits_at_its_beginning(count: int, stalled: float) -> None:
    """The GPU works for 5 s and rests for 5 s; in each of these 10 s the loop waits for 4."""
    loop = f.steps(100, duration=10, wait=0.4)
    columns = ["duration_seconds", "data_wait_seconds"]
    loop[columns] /= count
    busy = np.where((TICKS % 10 < 5) | (TICKS >= 990), 100.0, 0.0)
    node = gpu_node(busy, steps=loop.assign(count=count))
    assert seconds(node).get("data_stall", 0) == pytest.approx(stalled)


def test_cores_that_were_not_measured_are_neither_used_nor_unused() -> None:
    busy = np.where(INSIDE, f.GAP, 25.0)
    node = f.node(series=f.samples(1000, host__cpu_busy_pct=busy, host__memory_used_bytes=1.0))
    expected = {"effective": 225, "unused_cores": 675, "unclassified": 100}
    assert seconds(node) == pytest.approx(expected)


def test_the_cores_of_a_run_are_those_that_it_was_given() -> None:
    """The run uses half a core of its two; the machine has eight."""
    table = f.samples(1000, tree__cpu_seconds_total=0.5 * TICKS)
    node = f.node(series=table, of=f.hardware(effective_cpus=2.0))
    assert seconds(node) == pytest.approx({"effective": 250, "unused_cores": 750})


def shared(
    host_cores: float,
    own_cores: float,
    resolution: float = 1.0,
    given: float = 8.0,
    waiting: float | None = 0.0,
) -> dict[str, float]:
    """Return a machine with eight cores, `own_cores` of which are busy for the run, whose thread
    waits for a core for a share of the time.
    """
    count = round(1000 / resolution)
    random = np.random.default_rng(20261122)
    host = host_cores / 8 * 100 + random.normal(0, 3 / resolution**0.5, count)
    own = np.cumsum(own_cores * resolution * (1 + random.normal(0, 0.1 / resolution**0.5, count)))
    series = {"host__cpu_busy_pct": host.clip(0, 100), "tree__cpu_seconds_total": own}
    if waiting is not None:
        waited = np.arange(count) * resolution * waiting
        series |= {"tree__run_delay_seconds_total": waited, "tree__starved_seconds_total": waited}
    table = f.samples(1000, resolution, **series)
    node = f.node(series=table, of=f.hardware(effective_cpus=given))
    return seconds(node, resolution=resolution)


def assert_near(found: Mapping[str, float], expected: Mapping[str, float]) -> None:
    """Check that labels are within 1.6 % of the run: a rate is known from the second tick on."""
    for label in {*found, *expected}:
        assert found.get(label, 0.0) == pytest.approx(expected.get(label, 0.0), abs=16), label


RESOLUTIONS = pytest.mark.parametrize("resolution", [0.5, 1.0, 2.0, 5.0, 10.0])


@RESOLUTIONS
@pytest.mark.parametrize("host_cores", [0.1, 7.9])
def test_a_loop_that_sleeps_leaves_its_cores_unused_whatever_others_do(
    resolution: float, host_cores: float
) -> None:
    assert_near(shared(host_cores, 0.0005, resolution), {"unused_cores": 1000})


@RESOLUTIONS
def test_the_share_of_the_time_in_which_a_rank_waits_for_a_core_is_starved(
    resolution: float,
) -> None:
    """The rank uses two of eight cores in the rest of the time."""
    expected = {"starved": 600, "effective": 100, "unused_cores": 300}
    assert_near(shared(7.9, 2.0 * 0.4, resolution, waiting=0.6), expected)


def waiting_loop(resolution: float, sleeps: bool) -> NodeFrame:
    """Make a loop that, of 600 s without neighbours, waits for 400 s for its loader, which sleeps
    or decodes in the same thread, and computes with a core of two for 200 s. Beside them its thread
    waits for a core for as long as it has one.
    """
    worked = 200.0 if sleeps else 600.0
    length = 600.0 + worked
    wait = 400.0 if sleeps else 800.0
    ticks = np.arange(round(length / resolution)) * resolution
    grown = worked / length * ticks
    table = f.samples(
        length,
        resolution,
        tree__cpu_seconds_total=grown,
        tree__run_delay_seconds_total=grown,
        tree__starved_seconds_total=grown,
        host__cpu_busy_pct=100.0,
    )
    steps = f.steps(round(10 * length), duration=0.1, wait=wait / length)
    return f.node(series=table, step_tables=[steps], of=f.hardware(vcpus=2, effective_cpus=2.0))


@pytest.mark.parametrize("resolution", [0.5, 1.0, 10.0])
@pytest.mark.parametrize("sleeps", [True, False])
def test_neighbours_change_no_label_but_starved(resolution: float, sleeps: bool) -> None:
    node = waiting_loop(resolution, sleeps)
    length = len(node.samples) * resolution
    label_seconds = ledger(f.run(node, duration=length, resolution=resolution)).node_seconds()
    assert sum(label_seconds.values()) == pytest.approx(length)
    assert label_seconds["starved"] == pytest.approx(length - 600, abs=12)
    assert label_seconds["data_stall"] == pytest.approx(400, abs=12)
    alone = {True: {"effective": 100, "unused_cores": 100}, False: {"effective": 200}}[sleeps]
    assert {each: label_seconds[each] for each in alone} == pytest.approx(alone, abs=12)


@pytest.mark.parametrize(
    ("series", "starved"),
    [
        (
            {"tree__run_delay_seconds_total": TICKS, "tree__starved_seconds_total": 2 * TICKS / 3},
            667,
        ),
        ({"tree__run_delay_seconds_total": TICKS}, 500),
    ],
    ids=["of the rank that others wait for", "of older agents, which tell only the sum"],
)
def test_a_rank_that_waits_at_a_barrier_halves_no_starvation(
    series: dict[str, Any], starved: float
) -> None:
    """Each of two ranks has a core for a third of the time that it wants one, and the faster rank
    sleeps half of the time."""
    table = f.samples(1000, tree__cpu_seconds_total=TICKS / 2, host__cpu_busy_pct=100.0, **series)
    of = f.hardware(vcpus=2, effective_cpus=2.0)
    steps = [f.steps(5000, rank=rank, duration=0.2) for rank in range(2)]
    found = seconds(f.node(series=table, step_tables=steps, of=of))
    assert found["starved"] == pytest.approx(starved, abs=3)


def test_a_run_that_was_starved_before_its_first_sample_was_starved() -> None:
    table = f.samples(1000, tree__starved_seconds_total=0.7 + 0.0 * TICKS)
    assert seconds(f.node(series=table))["starved"] == pytest.approx(0.7)


def test_what_a_run_was_starved_before_a_part_of_it_is_not_the_parts() -> None:
    table = f.samples(1000, tree__starved_seconds_total=500 + 0.0 * TICKS).loc[300:]
    assert "starved" not in seconds(f.node(series=table))


def test_a_gpu_that_works_is_not_starved_while_its_rank_waits_for_a_core() -> None:
    waits = {"tree__starved_seconds_total": 0.5 * TICKS}
    assert "starved" not in seconds(gpu_node(100.0, steps=f.steps(1000), **waits))
    half = seconds(gpu_node(50.0, steps=f.steps(1000), **waits))
    assert_near(half, {"effective": 500, "starved": 500})


def test_a_wait_that_was_counted_when_it_ended_is_starved_from_its_beginning() -> None:
    """The loop waits for data for a second, and then its thread for a core for 4 s."""
    delay = {"tree__starved_seconds_total": 4.0 * ((TICKS + 1) // 5)}
    table = f.samples(1000, tree__cpu_seconds_total=0.0 * TICKS, **delay)
    steps = f.steps(200, duration=5.0, wait=0.2)
    found = seconds(f.node(series=table, step_tables=[steps]))
    assert_near(found, {"starved": 800, "data_stall": 200})


@RESOLUTIONS
def test_whether_a_run_slept_or_waited_while_others_worked_may_be_unknown(
    resolution: float,
) -> None:
    expected = {"effective": 250, "unclassified": 355, "unused_cores": 395}
    assert_near(shared(5.0, 2.0, resolution, waiting=None), expected)


@pytest.mark.parametrize("resolution", [0.5, 1.0, 10.0])
def test_on_a_machine_of_its_own_the_run_shares_it_with_nobody(resolution: float) -> None:
    """The kernel works a little for the run and for itself."""
    expected = {"effective": 500, "unused_cores": 500}
    assert_near(shared(4.1, 4.0, resolution, waiting=None), expected)


def test_neighbours_on_cores_that_the_run_was_not_given_are_no_label_of_the_run() -> None:
    assert shared(6.0, 1.0, given=2.0, waiting=None).get("unclassified", 0) < 10
    contested = shared(7.9, 0.5, given=2.0, waiting=None)["unclassified"]
    assert contested == pytest.approx(620, abs=30)


def test_without_cpu_time_of_its_own_the_machine_s_work_is_the_run_s() -> None:
    table = f.samples(1000, host__cpu_busy_pct=90.0)
    assert seconds(f.node(series=table)) == {"effective": 900, "unused_cores": 100}


@pytest.mark.parametrize(("busy", "unused"), [(10.0, 0), (10.5, 500)])
def test_a_gpu_is_unused_in_a_running_run_once_another_is_more_than_a_tenth_busy(
    busy: float, unused: float
) -> None:
    beside_an_idle_one = seconds(gpu_node(busy, 0.0, steps=f.steps(1000)), final=False)
    assert beside_an_idle_one.get("unused_gpu", 0) == unused


@pytest.mark.parametrize("busy", [2.0, np.where(TICKS < 5, 50.0, 0.0)])
def test_a_gpu_that_is_hardly_busy_for_ninety_nine_hundredths_is_unused(busy: f.Values) -> None:
    assert seconds(gpu_node(busy, 100.0)) == {"unused_gpu": 500, "effective": 500}


def test_a_node_that_was_held_before_the_run_began_was_starting_since_then() -> None:
    node = gpu_node(np.where(TICKS < 60, 0.0, 100.0))
    earlier = node.samples.set_axis(node.samples.index - 10, axis=0)
    held = replace(node, samples=earlier, intervals=((-10.0, 990.0),))
    assert seconds(held) == {"initialise": 60, "effective": 940}


def test_steps_without_a_duration_stall_nothing() -> None:
    empty = f.steps(2, start=400, wait=1.0).assign(duration_seconds=0.0, count=[1, 2])
    node = gpu_node(100.0, steps=pd.concat([f.steps(400), empty, f.steps(600, start=400)]))
    assert seconds(node) == {"effective": 1000}


@pytest.mark.parametrize(
    ("busy_pct", "sm_active_pct", "expected"),
    [
        pytest.param(60.0, 0.0, {"effective": 600, "gpu_idle": 400}, id="SM activity"),
        pytest.param(0.0, 60.0, {"effective": 600, "gpu_idle": 400}, id="utilisation"),
        pytest.param(0.0, 0.0, {"unused_gpu": 1000}, id="neither: nothing ran"),
    ],
)
def test_a_zero_that_another_series_contradicts_is_not_measured(
    busy_pct: float, sm_active_pct: float, expected: dict[str, float]
) -> None:
    node = gpu_node(busy_pct, gpu0__sm_active_pct=sm_active_pct)
    assert seconds(node) == pytest.approx(expected)
